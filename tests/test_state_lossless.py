"""Losslessness of models whose state cannot be cut: company, chunk sizes, tiny caches, shared beginnings and states
from the disk never change a text. The real scheduler and the real step on llama.cpp, with tiny random models.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import tiny_models
from attrs import evolve

from reame.core.blocks import block_keys, root_key
from reame.core.draft import Draft
from reame.core.events import Delta, Finish
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.engine.step import NoDrafter, StepRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Sequence as Seq

    from reame.core.blocks import Block
    from reame.core.sequence import Sequence
    from reame.engine.base import Engine

BLOCK, ANSWER, CELLS = 16, 40, 2048
TIMES = ("step_seconds", "prefill_seconds", "lone_seconds")
ROOT = root_key(b"tiny", "")
KINDS = {"mamba": tiny_models.write_mamba, "jamba": tiny_models.write_jamba}


@pytest.fixture(scope="module", params=list(KINDS))
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    path = KINDS[request.param](tmp_path_factory.mktemp("models") / f"{request.param}.gguf")
    engine = LlamaEngine(path, LlamaOptions(num_cells=CELLS, num_seqs=16, max_rows=128, threads=1))
    yield engine
    engine.close()


class Served:
    """A scheduler over the engine, empty at first, and a disk of its own. A row seems to take a millisecond: these
    models compute so fast that whether the disk is asked would hang on the machine."""

    def __init__(self, engine: Engine, disk: dict[bytes, Block] | None = None, *, cells: int = 0, **limits: float):
        values = {"max_running": 4, "max_rows": 128} | dict.fromkeys(TIMES, 1e9) | limits
        self.engine = engine
        self.disk = {} if disk is None else disk
        self.scheduler = Scheduler(
            Slots(cells or engine.num_cells, engine.num_seqs, whole_state=True), Limits(**values),  # type: ignore[arg-type]
            piece=engine.vocabulary.piece, eog_tokens=engine.info.eog_tokens, block_tokens=BLOCK,
        )  # fmt: skip
        self.runner = StepRunner(engine, Guesser())

    def run(self, requests: Seq[Request]) -> dict[str, list[int]]:
        """All at once; the tokens of each."""
        added = {r.id: self.scheduler.add(r, 0.0, self._num_on_disk(r)) for r in requests}
        self.sequences = added
        while (batch := self._plan()) is not None:
            assert all(part.draft is None for part in batch.slices)
            result = evolve(self.runner.run(batch), seconds=0.001 * batch.num_rows, restore_seconds=0.0)
            self.scheduler.commit(batch, result, 0.0)
            for saved in result.saved:
                self._store(saved.save.tokens, saved.payloads)
            for _, event in self.scheduler.take_events():
                assert isinstance(event, Delta) or (isinstance(event, Finish) and event.error is None)
        slots = self.scheduler.admission.slots.slots
        assert self.runner.lengths() == [len(slot.tokens) for slot in slots]
        return {name: sequence.tokens[len(sequence.request.prompt) :] for name, sequence in added.items()}

    def empty(self) -> None:
        for seq in range(self.engine.num_seqs):
            self.engine.trim(seq, 0)
        self.engine.compact(())

    def _plan(self):  # type: ignore[no-untyped-def]
        batch = self.scheduler.plan(0.0)
        for load in self.scheduler.take_loads():
            keys = block_keys(ROOT, load.sequence.tokens[: load.stop], BLOCK)
            self.scheduler.loaded(load, (self.disk[keys[-1]],), 0.001)
            batch = batch or self.scheduler.plan(0.0)
        return batch

    def _num_on_disk(self, request: Request) -> int:
        keys = block_keys(ROOT, request.prompt[:-1], BLOCK)
        return BLOCK * next((n for n in range(len(keys), 0, -1) if keys[n - 1] in self.disk), 0)

    def _store(self, tokens: tuple[int, ...], payloads: tuple[bytes, ...]) -> None:
        from reame.core.blocks import Block

        (payload,) = payloads
        keys = block_keys(ROOT, tokens, BLOCK)
        assert len(keys) * BLOCK == len(tokens)
        self.disk[keys[-1]] = Block(keys[-1], ROOT, 0, tokens, payload)


class Guesser(NoDrafter):
    """Always has something to say, and is never heard."""

    def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        return Draft((1, 2, 3), (1.0, 1.0, 1.0), "guess")


def requests(count: int, seed: int = 3) -> list[Request]:
    """Half of them with one long common beginning; half greedy, half seeded."""
    random = Random(seed)
    stem = [random.randrange(97, 123) for _ in range(150)]
    made = []
    for number in range(count):
        own = [random.randrange(97, 123) for _ in range(random.randint(5, 90))]
        sampling = Sampling(temperature=0) if number % 4 < 2 else Sampling(seed=number)
        prompt = (*stem, *own) if number % 2 else tuple(own)
        made.append(Request(id=f"r{number}", prompt=prompt, max_tokens=ANSWER, sampling=sampling))
    return made


MADE = requests(8)


@pytest.fixture(scope="module")
def alone(engine: Engine) -> dict[str, list[int]]:
    """Each text as it comes from an empty engine with nobody else there."""
    texts = {}
    for request in MADE:
        served = Served(engine)
        texts |= served.run([request])
        served.empty()
    assert len({tuple(text) for text in texts.values()}) == len(MADE)
    return texts


@pytest.fixture
def clean(engine: Engine) -> Iterator[None]:
    yield
    Served(engine).empty()


@pytest.mark.usefixtures("clean")
@pytest.mark.parametrize("chunk", [1, 7, 61])
def test_in_a_crowd_and_in_any_chunks(engine: Engine, alone: dict[str, list[int]], chunk: int) -> None:
    served = Served(engine, **dict.fromkeys(TIMES, 0), min_chunk=chunk, row_group=1)
    assert served.run(MADE) == alone


@pytest.mark.usefixtures("clean")
def test_in_a_tiny_cache_with_preemption_and_compactions(engine: Engine, alone: dict[str, list[int]]) -> None:
    served = Served(engine, cells=420, reserve=1, min_garbage=40)
    assert served.run(MADE) == alone
    assert served.scheduler.admission.preemption.num_preempted


@pytest.mark.usefixtures("clean")
def test_a_second_one_begins_where_the_first_left_its_state(engine: Engine, alone: dict[str, list[int]]) -> None:
    """The same prompt, a prompt that leaves it half way (which is known only then), and the next turn of a chat."""
    served = Served(engine)
    first, other, third = (MADE[number] for number in (1, 3, 5))
    assert served.run([first]) == {first.id: alone[first.id]}
    again = evolve(first, id="again")
    assert served.run([again]) == {"again": alone[first.id]}
    assert served.sequences["again"].num_cached == (len(first.prompt) - 1) // BLOCK * BLOCK
    assert served.run([other, third]) == {each.id: alone[each.id] for each in (other, third)}
    assert sorted(s.num_cached for s in served.sequences.values()) == [0, 144], "the one left a state for the other"
    turn = evolve(first, id="turn", prompt=(*first.prompt, *alone[first.id], 97, 98, 99))
    (following,) = served.run([turn]).values()
    assert served.sequences["turn"].num_cached == len(first.prompt) + ANSWER - 1
    served.empty()
    assert Served(engine).run([turn]) == {"turn": following}


@pytest.mark.usefixtures("clean")
def test_who_comes_together_computes_a_beginning_once(engine: Engine, alone: dict[str, list[int]]) -> None:
    served = Served(engine)
    together = [MADE[number] for number in (1, 3, 5, 7)]
    assert served.run(together) == {each.id: alone[each.id] for each in together}
    assert sorted(s.num_cached for s in served.sequences.values()) == [0, 144, 144, 144]


@pytest.mark.usefixtures("clean")
def test_from_the_disk(engine: Engine, alone: dict[str, list[int]]) -> None:
    """A prompt, and what was answered to it, after all live cells are gone; alone and in a crowd."""
    served = Served(engine)
    served.run(MADE)
    served.empty()
    disk = served.disk
    assert disk
    for request in (MADE[1], MADE[3]):
        served = Served(engine, disk)
        assert served.run([request]) == {request.id: alone[request.id]}
        (sequence,) = served.sequences.values()
        assert sequence.num_restored == sequence.num_cached >= 144
        served.empty()
    served = Served(engine, disk)
    assert served.run(MADE) == alone
    assert sum(sequence.num_restored > 0 for sequence in served.sequences.values()) >= 4
    served.empty()
    turn = evolve(MADE[1], id="turn", prompt=(*MADE[1].prompt, *alone["r1"], 97, 98, 99))
    served = Served(engine, disk)
    (following,) = served.run([turn]).values()
    reached = served.sequences["turn"].num_restored
    assert len(MADE[1].prompt) < reached + 64 + BLOCK
    served.empty()
    assert Served(engine).run([turn]) == {"turn": following}
