"""Runs the doctor's children one after the other, within a minute, and puts what they tell together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from reame.doctor.bench import MAX_ROWS, NUM_CELLS
from reame.doctor.clock import Clock
from reame.doctor.gather import Told
from reame.doctor.losslessness import SEQS
from reame.doctor.orders import Order
from reame.errors import ReameError
from reame.host.contention import Watch
from reame.host.cpu import default_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from reame.doctor.results import Measured
    from reame.engine.llama import LlamaOptions
    from reame.host.cpu import CpuShare

SECONDS = 60.0
"""For all children together; each ends by itself in time, or is killed `_LATE_S` after. So all is over by then, too."""
COMMAND = (sys.executable, "-P", "-m", "reame.doctor.child")
SPINS = (3000, 1000, 0)
"""Lengths of spinning to try; 0 is the long one of `engine/spin.py`, as nobody changes it here."""
_LATE_S = 8.0
_LEAST = 0.3
"""Of the time that a child should have; with less it is not begun."""
_MOST_CANDIDATES = 6
_GLANCE_S = 0.1

_SHARES = {"model": 0.5, "host": 0.06, "variants": 0.26, "spin": 0.06}
"""Of the time; `spin` for each length."""


class GivenUp(ReameError):
    """Whoever asked for the measurement no longer wants it."""


@frozen(kw_only=True)
class Plan:
    """What to measure. `options` are the daemon's, `model` None: the machine only. `name`: of the model, for people."""

    model: Path | None
    name: str
    options: LlamaOptions
    folder: Path
    seconds: float = SECONDS
    command: Sequence[str] = COMMAND


def candidates(share: CpuShare, configured: int) -> tuple[int, ...]:
    """Thread counts worth a measurement, the quick choice first: never more than CPUs or the quota feeds in part."""
    most, quick = share.most_threads, default_threads(share).value
    wanted = (quick, configured, most, share.cores, share.fast_cores or 0, most - 1, quick - 1, quick // 2, 1)
    found = dict.fromkeys(count for count in wanted if 1 <= count <= most)
    return tuple(found)[:_MOST_CANDIDATES]


def measure(
    plan: Plan,
    share: CpuShare,
    *,
    on_progress: Callable[[float, str], None] = lambda done, doing: None,
    go_on: Callable[[], bool] = lambda: True,
) -> Measured:
    """Blocks for up to `plan.seconds` and a little. A child that crashes, hangs or is refused is a sentence in
    `faults`, and what it told before holds. Raises GivenUp soon after `go_on` says no.
    """
    clock, watch = Clock(plan.seconds), Watch(share)
    told, done = Told(name=plan.name), 0.0
    for order in _orders(plan, share, told):
        part = order.seconds / plan.seconds

        def show(within: float, doing: str, done: float = done, part: float = part) -> None:
            on_progress(done + part * within, doing)

        seconds = min(order.seconds, clock.left)
        if seconds < _LEAST * order.seconds:
            told.skipped.append(_what(order))
        else:
            _run(plan.command, evolve(order, seconds=seconds), told, show, go_on, late=clock.left + _LATE_S)
        done += part
    on_progress(1.0, "")
    return told.measured(clock.spent, watch.look())


def _orders(plan: Plan, share: CpuShare, told: Told) -> Iterator[Order]:
    """What matters most first, as time may run out; later ones use the thread counts that an earlier one found best."""
    threads, quick = candidates(share, plan.options.threads), default_threads(share)
    seconds = {task: plan.seconds * part for task, part in _SHARES.items()}
    options = evolve(
        plan.options, num_cells=NUM_CELLS, num_seqs=SEQS, max_rows=MAX_ROWS, max_sampled=MAX_ROWS, mlock=False,
        threads=quick.value, prefill_threads=quick.prefill,
    )  # fmt: skip
    if plan.model is not None:
        yield Order(task="model", seconds=seconds["model"], model=str(plan.model), options=options, threads=threads)
    copiers = tuple(dict.fromkeys((1, threads[0])))
    yield Order(task="host", seconds=seconds["host"], threads=copiers, folder=str(plan.folder))
    if plan.model is None or not told.is_complete:
        return
    decode, prefill = told.best()
    options = evolve(options, threads=decode, prefill_threads=prefill)
    others = _variants(options)
    yield Order(
        task="variants", seconds=seconds["variants"], model=str(plan.model), options=options, variants=others
    )
    if share.usable >= 2 and not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        for count in dict.fromkeys((options.spin_count, *SPINS)):
            order = evolve(options, spin_count=count, threads=max(2, decode))  # one alone waits for nobody
            yield Order(task="spin", seconds=seconds["spin"], model=str(plan.model), options=order)


def _variants(options: LlamaOptions) -> dict[str, dict[str, object]]:
    """As it is first, so that all are measured in the same minute."""
    other = not options.extra_buffers
    found: dict[str, dict[str, object]] = {"the settings as they are": {}}
    if not options.exact:
        found[f"repacked weights {'on' if other else 'off'}"] = {"extra_buffers": other}
    for kv_type in ("q8_0", "f16", "q4_0"):
        if kv_type != options.kv_type and (options.flash_attention or kv_type == "f16"):
            found[f"{kv_type} cells"] = {"kv_type": kv_type}
    if options.flash_attention:
        found["f16 cells, no flash attention"] = {"kv_type": "f16", "flash_attention": False}
    return found


def _run(
    command: Sequence[str],
    order: Order,
    told: Told,
    show: Callable[[float, str], None],
    go_on: Callable[[], bool],
    *,
    late: float,
) -> None:
    """One child to its end, or until it is late: `late` seconds from now at most."""
    end = time.monotonic() + min(order.seconds + _LATE_S, late)
    with (
        tempfile.TemporaryFile() as said,
        tempfile.TemporaryFile() as complaints,
        subprocess.Popen(
            [*command, order.to_json()], stdin=subprocess.DEVNULL, stdout=said, stderr=complaints
        ) as child,
    ):
        try:
            place, ended = 0, False
            while not ended:
                ended = _waited(child)
                place = told.take(said.fileno(), place, show)
                if not go_on():
                    raise GivenUp("the measurement was given up")
                if not ended and time.monotonic() > end:
                    told.skipped.append(f"{_what(order)}, which took too long and was stopped")
                    return
        finally:
            child.kill()
        complaints.seek(0)
        told.ended(_what(order), _death(child.returncode, complaints.read()))


def _waited(child: subprocess.Popen[bytes]) -> bool:
    try:
        child.wait(_GLANCE_S)
    except subprocess.TimeoutExpired:
        return False
    return True


def _what(order: Order) -> str:
    return {
        "host": "measuring memory and disk",
        "model": "measuring the model",
        "variants": "comparing ways to load the model",
        "spin": f"measuring with spin_count {order.options.spin_count}",
    }[order.task]


def _death(status: int, complaints: bytes) -> str:
    """How the child came to its end, when not by itself; empty after a good end."""
    if status >= 0:
        last = complaints.decode("utf-8", "replace").strip().rpartition("\n")[2]
        return f"ended with status {status}: {last}" if status else ""
    if -status == signal.SIGKILL:
        return "was killed, most likely for lack of memory"
    return f"died of {signal.Signals(-status).name}: llama.cpp does not run well here"
