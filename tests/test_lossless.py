"""Losslessness with the real small model: company, chunk sizes, drafts and shared prefixes never change a text.

Runs the real scheduler and the real step on llama.cpp, without HTTP. The long form, with more prompts, is
`tests/drill/lossless.py`.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from reame.core.draft import Draft
from reame.core.events import Delta, Finish
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.engine.step import Drafter, NoDrafter, StepRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Seq
    from pathlib import Path

    from reame.core.sequence import Sequence
    from reame.engine.base import Engine

WORDS = [
    "river", "stone", "bread", "clock", "seven", "winter", "letter", "garden", "copper", "engine", "silver", "window",
    "paper", "horse", "bridge",
]  # fmt: skip
ANSWER = 16
TIMES = ("step_seconds", "prefill_seconds", "lone_seconds")


@pytest.fixture(scope="module")
def engine(model_path: Path) -> Iterator[Engine]:
    options = LlamaOptions(num_cells=4096, num_seqs=24, max_rows=256, threads=2, prefill_threads=2)
    engine = LlamaEngine(model_path, options)
    yield engine
    engine.close()


def requests(engine: Engine, count: int, seed: int = 7) -> list[Request]:
    """Half greedy, half seeded at 0.8; half with one long common beginning; lengths from 10 to 110 tokens."""
    random = Random(seed)
    stem = " ".join(random.choices(WORDS, k=60))
    made = []
    for i in range(count):
        text = (stem if i % 2 else "") + " ".join(random.choices(WORDS, k=random.randint(6, 40)))
        prompt = engine.vocabulary.tokenize(f"Continue: {text}", add_special=True, parse_special=False)
        sampling = Sampling(temperature=0) if i % 4 < 2 else Sampling(seed=i)
        made.append(Request(id=f"r{i}", prompt=tuple(prompt), max_tokens=ANSWER, sampling=sampling))
    return made


def run(engine: Engine, batch: Seq[Request], limits: Limits, drafter: Drafter | None = None) -> dict[str, str]:
    """All requests at once through scheduler and step; their texts. The engine is empty before and after. With a
    drafter all steps seem to take the same time, so that every draft seems to pay."""
    scheduler = Scheduler(
        Slots(engine.num_cells, engine.num_seqs), limits,
        piece=engine.vocabulary.piece, eog_tokens=engine.info.eog_tokens,
    )  # fmt: skip
    runner = StepRunner(engine, drafter)
    texts = {request.id: "" for request in batch}
    for request in batch:
        scheduler.add(request, 0.0)
    while (plan := scheduler.plan(0.0)) is not None:
        result = runner.run(plan)
        scheduler.commit(plan, evolve(result, seconds=0.01) if drafter else result, 0.0)
        for sequence, event in scheduler.take_events():
            if isinstance(event, Delta):
                texts[sequence.request.id] += event.text
            else:
                assert isinstance(event, Finish)
                assert event.error is None
    for seq in range(engine.num_seqs):
        engine.trim(seq, 0)
    engine.compact(())
    return texts


def limits(**changes: int | float) -> Limits:
    values = {"max_running": 8, "max_rows": 256} | dict.fromkeys(TIMES, 1e9) | changes
    return Limits(**values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made(engine: Engine) -> list[Request]:
    return requests(engine, 12)


@pytest.fixture(scope="module")
def alone(engine: Engine, made: list[Request]) -> dict[str, str]:
    """Each text as it comes from an empty engine with nobody else there."""
    texts: dict[str, str] = {}
    for request in made:
        texts |= run(engine, [request], limits())
    assert len(set(texts.values())) > len(made) // 2
    return texts


def test_eight_at_once_get_what_each_gets_alone(
    engine: Engine, made: list[Request], alone: dict[str, str]
) -> None:
    assert run(engine, made, limits(max_running=8)) == alone


@pytest.mark.parametrize("chunk", [1, 5, 61])
def test_any_chunk_size_gives_the_same_text(
    engine: Engine, made: list[Request], alone: dict[str, str], chunk: int
) -> None:
    some = made[1:4]
    texts = run(engine, some, limits(**dict.fromkeys(TIMES, 0), min_chunk=chunk, row_group=1, max_running=2))
    assert texts == {request.id: alone[request.id] for request in some}


def test_a_tiny_cache_with_preemption_gives_the_same_text(
    engine: Engine, made: list[Request], alone: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`reserve` 1 and few cells: sequences grow, are preempted and come back."""
    monkeypatch.setattr(engine, "num_cells", 320)
    assert run(engine, made, limits(reserve=1, max_running=8)) == alone


def test_drafts_right_or_absurd_give_the_same_text(
    engine: Engine, made: list[Request], alone: dict[str, str]
) -> None:
    random = Random(3)
    truth = {
        request.id: engine.vocabulary.tokenize(alone[request.id], add_special=False, parse_special=False)
        for request in made
    }

    class Guesser(NoDrafter):
        num_accepted = 0

        def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
            so_far = sequence.num_generated + len(drawn)
            right = tuple(truth[sequence.request.id][so_far : so_far + random.randint(0, 6)])
            wrong = tuple(random.randrange(engine.info.vocab_size) for _ in range(random.randint(0, 4)))
            self.num_accepted = max(self.num_accepted, sequence.drafts.accepted)
            return Draft(right + wrong, (1.0,) * len(right + wrong), "guess") if right + wrong else None

    guesser = Guesser()
    assert run(engine, made, limits(max_running=8), guesser) == alone
    assert guesser.num_accepted > 5  # as many as one sequence had when it was last guessed for
