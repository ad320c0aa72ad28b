"""The daemon without HTTP and without a model: intake, decode loop and scheduler on the fake engine, put together as
`Daemon` does. Time is virtual: nothing waits for a clock, and a wait that never ends fails at once."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio
from attrs import define, frozen

from reame.config import Config, EngineConfig, SchedulerConfig
from reame.core.events import Delta, Finish
from reame.core.request import Call, Sampling
from reame.engine.fake import FakeEngine, reference_tokens
from reame.engine.step import StepRunner
from reame.engine.thread import InlineThread
from reame.errors import EngineError, RequestError
from reame.runtime.decode import DecodeLoop
from reame.runtime.intake import Intake
from reame.runtime.metrics import Metrics
from reame.runtime.model import new_scheduler, served_model
from reame.runtime.recall import forgetful

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from reame.core.step_time import StepTime
    from reame.engine.base import Row
    from reame.engine.thread import Caller
    from reame.runtime.memory import Memory
    from reame.runtime.replies import Replies

T = TypeVar("T")

GREEDY = Sampling(temperature=0)
LONG = 10_000.0
"""Virtual seconds after which a test that hangs fails."""


@define
class PacedThread:
    """Every call takes `seconds` of virtual time. `calls` counts them."""

    seconds: float = 1.0
    calls: int = 0
    is_wanted: bool = False

    async def call(self, function: Callable[[], T]) -> T:
        self.calls += 1
        with trio.CancelScope(shield=True):
            await trio.sleep(self.seconds)
        return function()


class CountingEngine(FakeEngine):
    """Notes the rows of each decode; fails one with a sequence that begins with `poison`."""

    poison: int | None = None

    def __init__(self, *, num_cells: int, num_seqs: int, max_rows: int) -> None:
        super().__init__(num_cells=num_cells, num_seqs=num_seqs, max_rows=max_rows)
        self.steps: list[list[Row]] = []

    def decode(self, rows: Sequence[Row]) -> None:
        self.steps.append(list(rows))
        if self.poison is not None and any((row.token, row.position) == (self.poison, 0) for row in rows):
            raise EngineError("poisoned")
        super().decode(rows)


@frozen
class Serving:
    """What a test looks at. `scope` is that of the decode loop."""

    engine: CountingEngine
    intake: Intake
    loop: DecodeLoop
    metrics: Metrics
    scope: trio.CancelScope

    @property
    def num_rows(self) -> int:
        return self.engine.num_rows_computed

    def ask(self, call: Call, *, key: str = "") -> AbstractAsyncContextManager[Replies]:
        return self.intake.open(call, key=key, namespace=key)

    async def answer(self, call: Call, *, key: str = "") -> Answer:
        """All of it, as a client that reads gets it."""
        async with self.ask(call, key=key) as replies:
            return await read(replies)

    async def idle(self) -> None:
        """Until the loop has nothing left to do."""
        # In virtual time this costs nothing, and the loop has no event for it.
        while self.loop.scheduler.sequences() or self.intake.jobs.statistics().current_buffer_used:  # noqa: ASYNC110
            await trio.sleep(0.01)


@frozen
class Answer:
    """The text and the end of each choice."""

    texts: list[str]
    finishes: list[Finish]

    @property
    def errors(self) -> list[RequestError]:
        return [finish.error for finish in self.finishes if finish.error]


async def read(replies: Replies) -> Answer:
    texts = [""] * replies.num_choices
    finishes: dict[int, Finish] = {}
    async for index, event in replies:
        assert index not in finishes, "an event after the end"
        if isinstance(event, Delta):
            texts[index] += event.text
        else:
            finishes[index] = event
    return Answer(texts, [finishes[index] for index in range(replies.num_choices)])


def config_of(
    *, slots: int = 2, queue: int = 8, context: int = 200, cells: int = 0, residents: int = 2, rows: int = 16,
    reserve: int = 512, timeout_s: float = 600.0, slowdown: float = 0.0,
) -> Config:  # fmt: skip
    """`slowdown`: 0, as the fake engine's steps take no time that would say how many rows hold up nobody."""
    return Config(
        engine=EngineConfig(slots=slots, residents=residents, context=context, cells=cells, batch_rows=rows),
        scheduler=SchedulerConfig(
            queue=queue, request_timeout_s=timeout_s, reserve_tokens=reserve, step_ms=60_000,
            background_slowdown=slowdown,
        ),
    )


@asynccontextmanager
async def serving(
    config: Config, *, thread: Caller | None = None, memory: Memory | None = None, run_ahead: int = 1,
    tell_time: Callable[[StepTime], None] = lambda time: None,
) -> AsyncIterator[Serving]:  # fmt: skip
    """Serve until the block ends; then the loop must end by itself, with every cell accounted for."""
    with trio.fail_after(LONG):
        async with trio.open_nursery() as nursery:
            up = start(config, nursery, thread or InlineThread(), memory or forgetful(), run_ahead, tell_time)
            yield up
            up.intake.close()
            assert up.intake.model is not None
            assert up.intake.model.constraints is not None
            up.intake.model.constraints.close()
    if not up.scope.cancelled_caught:
        slots = up.loop.scheduler.admission.slots
        assert (up.loop.scheduler.sequences(), slots.num_pinned) == ([], 0)


def start(
    config: Config, nursery: trio.Nursery, thread: Caller, memory: Memory, run_ahead: int,
    tell_time: Callable[[StepTime], None],
) -> Serving:  # fmt: skip
    engine = CountingEngine(
        num_cells=config.engine.cells or 2 * config.engine.context,
        num_seqs=config.engine.slots + config.engine.residents,
        max_rows=max(config.engine.batch_rows, config.engine.slots),
    )
    metrics = Metrics()
    intake = Intake(config, "fake", metrics)
    scheduler = new_scheduler(config, engine, memory.block_tokens)
    model = served_model(config, Path("fake.gguf"), "fake", engine)
    assert model.constraints is not None
    runner = StepRunner(engine, new_matcher=model.constraints.matcher)
    loop = DecodeLoop(
        scheduler, runner, thread, intake.jobs, memory, metrics, run_ahead=run_ahead, tell_time=tell_time
    )
    scope = trio.CancelScope()
    nursery.start_soon(partial(_run, loop, scope))
    intake.opened(model, loop, memory)
    return Serving(engine, intake, loop, metrics, scope)


async def _run(loop: DecodeLoop, scope: trio.CancelScope) -> None:
    with scope:
        await loop.run()


def prompt_of(length: int, num_tokens: int, *, first: int = 0) -> tuple[int, ...]:
    """A prompt of `length` tokens whose greedy answer has at least `num_tokens` tokens before its end. Prompts of other
    `first` share no prefix."""
    for tail in range(10_000):
        prompt = (1 + first, *(1 + (tail // 7**place) % 7 for place in range(length - 1)))
        if 0 not in reference_tokens(prompt, GREEDY, num_tokens, 8):
            return prompt
    raise AssertionError("no such prompt")


def text_of(prompt: tuple[int, ...], num_tokens: int, sampling: Sampling = GREEDY) -> str:
    """What the plain loop answers."""
    letters = FakeEngine().vocabulary.piece
    return b"".join(map(letters, reference_tokens(prompt, sampling, num_tokens, 8))).decode()


def call_of(*prompts: tuple[int, ...], max_tokens: int = 8, n: int = 1, timeout: float | None = None) -> Call:
    return Call(prompts=prompts, n=n, sampling=GREEDY, max_tokens=max_tokens, timeout=timeout)
