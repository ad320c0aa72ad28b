"""The tuner: watches how long steps take and who else is there, chooses the number of threads and how long they spin,
and says when drafts begin or cease to pay.

A step of one row uses llama.cpp's `n_threads` and one of more rows its `n_threads_batch`, so there are two choices,
each judged by its own steps. They are set on the decode thread, between two steps.

Bound: `MOST_STEPS` step times of about 100 bytes wait to be looked at; when there are more, the latest are dropped.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING

import trio

from reame.core.spin_choice import SpinChoice
from reame.core.step_time import StepTime
from reame.core.thread_choice import ThreadChoice
from reame.host.contention import Watch, pressure
from reame.host.cpu import cpu_share
from reame.runtime.drafting import draft_prices
from reame.speculation.verdict import Verdicts

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.config import EngineConfig
    from reame.core.scheduler import Scheduler
    from reame.core.thread_choice import Change
    from reame.engine.spin import SpinSwitch
    from reame.engine.thread import Caller
    from reame.runtime.metrics import Metrics

MOST_STEPS = 1024
PACE_S, TRY_PACE_S = 1.0, 0.1
"""Seconds between two looks while there are steps, and while another number of threads, maybe a bad one, is tried.
Without any steps it sleeps.
"""
IDLE_S = 1.5
"""Without a step for so long, who used the cores meanwhile is not company: nobody was held up. Shorter pauses count:
else a neighbour of many short answers would never be seen."""
VERDICT_S = 60.0
"""Seconds between two looks at what drafts saved while there are steps: a changing workload must not fill the log."""

log = logging.getLogger(__name__)


def may_adapt(engine: EngineConfig) -> bool:
    """Wanted, and without a trace in any text: with f16 cells llama.cpp divides the sums of attention among the threads
    of a step of one row, so its logits depend on how many there are."""
    return engine.adapt_threads and engine.kv_type != "f16"


def cpu_pressure() -> float:
    """0 to 1; 0 when the kernel does not tell. Takes 0.1 to 0.3 ms."""
    return pressure().cpu or 0.0


class Company:
    """Called, it tells how many of this process's CPUs others used since the last call, the hypervisor included."""

    def __init__(self) -> None:
        self._share = cpu_share()
        self._watch = Watch(self._share)

    def __call__(self) -> float:
        seen, self._watch = self._watch.look(), Watch(self._share)
        return seen.others + seen.stolen * self._share.usable


class Tuner:
    """`run` ends with `close`. `set_threads(decode, prefill)` is called on the decode thread `thread`.

    `scheduler` is only read, also while it is lent. `adapts`: the threads may change; `speculates`: drafts are watched.
    `spin` is None where it is fixed; it is given up where threads are too scarce for it.
    """

    def __init__(
        self,
        thread: Caller,
        set_threads: Callable[[int, int], None],
        scheduler: Scheduler,
        metrics: Metrics,
        *,
        threads: int,
        prefill_threads: int,
        adapts: bool,
        speculates: bool,
        spin: SpinSwitch | None = None,
        pressure: Callable[[], float] = cpu_pressure,
        company: Callable[[], float] | None = None,
    ) -> None:
        self._thread = thread
        self._set_threads = set_threads
        self._scheduler = scheduler
        self._metrics = metrics
        self._one, self._more = ThreadChoice(threads), ThreadChoice(prefill_threads)
        self._adapts = adapts
        self._pressure = pressure
        self._spin, self._spin_choice, self._company = spin, SpinChoice(), company or Company()
        self._verdicts = Verdicts() if speculates else None
        self._send, self._steps = trio.open_memory_channel[StepTime](MOST_STEPS)
        self._clock = trio.lowlevel.current_clock()
        self._next_verdict = self._clock.current_time() + VERDICT_S
        self._set_at = self._ended = -inf
        self._scope = trio.CancelScope()
        self._show()

    def tell(self, step: StepTime) -> None:
        """A step is over. Never waits."""
        with suppress(trio.WouldBlock):
            self._send.send_nowait(step)

    def close(self) -> None:
        self._scope.cancel()

    async def run(self) -> None:
        with self._scope:
            async for step in self._steps:
                steps = [step, *self._waiting()]
                self._choose_spin(was_idle=self._was_idle(steps))
                if self._adapts:
                    await self._judge(steps)
                self._say_whether_drafts_pay()
                await trio.sleep(TRY_PACE_S if self._one.is_trying or self._more.is_trying else PACE_S)

    def _waiting(self) -> list[StepTime]:
        return [self._steps.receive_nowait() for _ in range(self._steps.statistics().current_buffer_used)]

    async def _judge(self, steps: list[StepTime]) -> None:
        """Up to the first change: the steps behind it were still taken with the old number of threads, and so were
        those that began before the new one was set."""
        pressed = self._pressure()
        for step in steps:
            choice = self._one if step.num_rows == 1 else self._more
            before, set_before = choice.settled, choice.threads
            if step.at - step.seconds < self._set_at:
                continue
            change = choice.observe(step.kind, step.comparable_seconds, at=step.at, pressure=pressed)
            if choice.settled != before and change:
                self._tell_change(choice, before, change)
            if choice.threads != set_before:
                await self._thread.call(partial(self._set, self._one.threads, self._more.threads))
                return

    def _was_idle(self, steps: list[StepTime]) -> bool:
        """Since the last look, whose last step ended before `steps`, which are all since then."""
        ends = [self._ended, *(step.at for step in steps)]
        begins = [*(step.at - step.seconds for step in steps), self._clock.current_time()]
        self._ended = steps[-1].at
        return any(begin > end + IDLE_S for end, begin in zip(ends, begins, strict=True))

    def _choose_spin(self, *, was_idle: bool) -> None:
        if self._spin is None:
            return
        company = self._company()
        if was_idle or not self._spin_choice.observe(company):
            return
        if self._spin_choice.is_short and not self._spin.shorten():
            log.warning("threads spin long beside others too: too few more may be started (pids.max, ulimit -u)")
            self._spin = None
            return
        if self._spin_choice.is_short:
            log.info("threads spin only shortly: others use these cores too")
        else:
            self._spin.lengthen()
            log.info("threads spin long again: nobody else uses these cores")
        self._metrics.short_spin.set(self._spin_choice.is_short)

    def _set(self, decode: int, prefill: int) -> None:
        """On the decode thread."""
        self._set_threads(decode, prefill)
        self._set_at = self._clock.current_time()

    def _tell_change(self, choice: ThreadChoice, before: int, change: Change) -> None:
        rows = "one row" if choice is self._one else "more rows"
        log.info("threads for steps of %s: %d instead of %d, %s", rows, choice.settled, before, change.value)
        self._show()

    def _show(self) -> None:
        self._metrics.threads.labels("one").set(self._one.settled)
        self._metrics.threads.labels("more").set(self._more.settled)

    def _say_whether_drafts_pay(self) -> None:
        now = self._clock.current_time()
        if self._verdicts is None or now < self._next_verdict:
            return
        self._next_verdict = now + VERDICT_S
        said = self._verdicts.look(dict(self._scheduler.drafts), self._scheduler.num_drawn)
        if said:
            log.info("%s; %s", said, draft_prices(self._scheduler.cost))
