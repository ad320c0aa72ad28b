"""What the step loop may rely on, for every engine: run on the fake, and on llama.cpp with the real small model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reame.core.compaction import Segment
from reame.core.request import Sampling
from reame.engine.base import Engine, Row
from reame.engine.fake import FakeEngine
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GREEDY, SEEDED = Sampling(temperature=0), Sampling(temperature=0.8, seed=11)
CELLS, SEQS, ROWS = 512, 4, 64


@pytest.fixture(scope="module", params=["fake", "llama"])
def opened(request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "fake":
        yield FakeEngine(num_cells=CELLS, num_seqs=SEQS, max_rows=ROWS)
        return
    path: Path = request.getfixturevalue("model_path")
    options = LlamaOptions(num_cells=CELLS, num_seqs=SEQS, max_rows=ROWS, threads=1, prefill_threads=1)
    engine = LlamaEngine(path, options)
    yield engine
    engine.close()


@pytest.fixture
def engine(opened: Engine) -> Iterator[Engine]:
    yield opened
    wipe(opened)


@pytest.fixture
def prompt(engine: Engine) -> list[int]:
    text = "the river runs past the old mill and the boat waits for the captain of the red ship"
    return engine.vocabulary.tokenize(text, add_special=True, parse_special=False)


def wipe(engine: Engine) -> None:
    for seq in range(engine.num_seqs):
        engine.trim(seq, 0)
    engine.compact(())


def prefill(engine: Engine, seq: int, tokens: list[int], *, chunk: int = ROWS) -> int:
    """Compute `tokens` at the end of `seq`; the index of the last row, whose logits are there."""
    start = engine.length(seq)
    last = start + len(tokens) - 1
    index = 0
    for first in range(0, len(tokens), chunk):
        rows = [
            Row(token, start + i, seq, start + i == last)
            for i, token in enumerate(tokens[first : first + chunk], first)
        ]
        engine.decode(rows)
        index = len(rows) - 1
    return index


def generate(engine: Engine, seq: int, row: int, count: int, sampling: Sampling, prompt: list[int]) -> list[int]:
    sampler = engine.new_sampler(sampling, prompt)
    drawn = [engine.sample(row, sampler)]
    while len(drawn) < count:
        engine.decode([Row(drawn[-1], engine.length(seq), seq, True)])
        drawn.append(engine.sample(0, sampler))
    engine.free_sampler(sampler)
    return drawn


def plain(engine: Engine, prompt: list[int], count: int, sampling: Sampling) -> list[int]:
    drawn = generate(engine, 0, prefill(engine, 0, prompt), count, sampling, prompt)
    wipe(engine)
    return drawn


def test_cells_are_counted_by_position(engine: Engine, prompt: list[int]) -> None:
    assert engine.length(1) == 0
    prefill(engine, 1, prompt)
    assert engine.length(1) == len(prompt)
    engine.trim(1, 3)
    assert engine.length(1) == 3
    engine.trim(1, 0)
    assert engine.length(1) == 0


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8, ROWS])
@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_any_chunk_size_gives_the_same_text(engine: Engine, prompt: list[int], chunk: int, sampling: Sampling) -> None:
    expected = plain(engine, prompt, 24, sampling)
    row = prefill(engine, 2, prompt, chunk=chunk)
    assert generate(engine, 2, row, 24, sampling, prompt) == expected


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_a_shared_prefix_gives_the_same_text(engine: Engine, prompt: list[int], sampling: Sampling) -> None:
    """Also while the donor goes on, and after it is gone."""
    expected = plain(engine, prompt, 24, sampling)
    prefill(engine, 0, [*prompt[:10], prompt[0], prompt[0]])
    engine.copy(0, 3, 10)
    prefill(engine, 0, prompt[:5])
    engine.trim(0, 0)
    assert engine.length(3) == 10
    row = prefill(engine, 3, prompt[10:])
    assert generate(engine, 3, row, 24, sampling, prompt) == expected


def test_a_copy_takes_no_cells(engine: Engine, prompt: list[int]) -> None:
    count = CELLS - 40
    filler = (prompt * (count // len(prompt) + 1))[:count]
    prefill(engine, 0, filler)
    for seq in (1, 2, 3):
        engine.copy(0, seq, count)
    prefill(engine, 1, prompt[:13])
    prefill(engine, 2, prompt[:13])
    prefill(engine, 3, prompt[:13])


def test_more_tokens_than_cells_is_an_engine_error_and_passes(engine: Engine, prompt: list[int]) -> None:
    expected = plain(engine, prompt, 8, GREEDY)
    filler = (prompt * (CELLS // len(prompt) + 1))[:CELLS]
    prefill(engine, 0, filler)
    with pytest.raises(EngineError):
        engine.decode([Row(prompt[0], 0, 1, True)])
    wipe(engine)
    assert plain(engine, prompt, 8, GREEDY) == expected


def test_garbage_is_not_written_again_before_a_compaction(engine: Engine, prompt: list[int]) -> None:
    filler = (prompt * (CELLS // len(prompt) + 1))[: CELLS - 5]
    prefill(engine, 0, filler)
    engine.trim(0, 0)
    prefill(engine, 1, prompt[:5])
    with pytest.raises(EngineError):
        engine.decode([Row(prompt[5], 5, 1, True)])
    wipe(engine)
    prefill(engine, 1, filler)


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_a_compaction_keeps_what_is_held(engine: Engine, prompt: list[int], sampling: Sampling) -> None:
    """Two sequences with a common prefix, garbage before, between and behind their cells."""
    expected = plain(engine, prompt, 20, sampling)
    prefill(engine, 3, prompt[3:9])
    prefill(engine, 0, prompt[:9])
    engine.copy(0, 1, 9)
    prefill(engine, 3, prompt[:4])
    prefill(engine, 0, prompt[9:12])
    prefill(engine, 1, prompt[2:6])
    engine.trim(3, 0)
    engine.trim(1, 11)
    engine.compact((
        Segment((0, 1), 0, tuple(range(6, 15))),
        Segment((0,), 9, tuple(range(19, 22))),
        Segment((1,), 9, tuple(range(22, 24))),
    ))  # fmt: skip
    assert [engine.length(seq) for seq in range(4)] == [12, 11, 0, 0]
    row = prefill(engine, 0, prompt[12:])
    assert generate(engine, 0, row, 20, sampling, prompt) == expected
    engine.trim(1, 9)
    row = prefill(engine, 1, prompt[9:])
    assert generate(engine, 1, row, 20, sampling, prompt) == expected


@pytest.mark.parametrize("size", [1, 4])
def test_saved_blocks_come_back_bit_for_bit(engine: Engine, prompt: list[int], size: int) -> None:
    """Also behind other cells, and in another sequence than they came from."""
    expected = plain(engine, prompt, 20, SEEDED)
    prefill(engine, 0, prompt)
    stop = (len(prompt) - 1) // size * size
    blocks = [engine.save(0, start, start + size) for start in range(0, stop, size)]
    assert engine.length(0) == len(prompt)
    wipe(engine)
    prefill(engine, 1, prompt[::-1])
    for number, block in enumerate(blocks):
        engine.restore(2, number * size, (number + 1) * size, block)
    assert engine.length(2) == stop
    assert engine.save(2, 0, size) == blocks[0]
    row = prefill(engine, 2, prompt[stop:])
    assert generate(engine, 2, row, 20, SEEDED, prompt) == expected


def test_bytes_that_are_no_block_are_an_engine_error_and_pass(engine: Engine, prompt: list[int]) -> None:
    expected = plain(engine, prompt, 6, GREEDY)
    prefill(engine, 0, prompt)
    block = engine.save(0, 4, 8)
    for start, data in ((0, block), (8, block), (4, block[: len(block) // 2]), (4, b"")):
        with pytest.raises(EngineError):
            engine.restore(1, start, start + 4, data)
    wipe(engine)
    assert plain(engine, prompt, 6, GREEDY) == expected


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_rejected_rows_leave_no_trace(engine: Engine, prompt: list[int], sampling: Sampling) -> None:
    """Verification: draw at each row of a draft, stop at the first difference, trim, go on."""
    expected = plain(engine, prompt, 12, sampling)
    sampler = engine.new_sampler(sampling, prompt)
    drawn = [engine.sample(prefill(engine, 0, prompt), sampler)]
    while len(drawn) < 12:
        truth = expected[len(drawn) : len(drawn) + 2]
        draft = [*truth, expected[0], expected[0]]
        start = engine.length(0)
        engine.decode([Row(token, start + i, 0, True) for i, token in enumerate([drawn[-1], *draft])])
        accepted = 0
        while True:
            drawn.append(engine.sample(accepted, sampler))
            if drawn[-1] != draft[accepted]:
                break
            accepted += 1
            if accepted == len(draft):
                drawn.append(engine.sample(accepted, sampler))
                break
        engine.trim(0, start + 1 + accepted)
    engine.free_sampler(sampler)
    assert drawn[:12] == expected


def test_sequences_in_one_batch_do_not_touch_each_other(engine: Engine, prompt: list[int]) -> None:
    others = [prompt[3:], prompt[5:] + prompt[:5], prompt[::-1]]
    prompts = [prompt, *others]
    expected = [plain(engine, p, 10, SEEDED) for p in prompts]
    rows = [Row(t, i, seq, i == len(p) - 1) for seq, p in enumerate(prompts) for i, t in enumerate(p)]
    samplers = [engine.new_sampler(SEEDED, p) for p in prompts]
    for first in range(0, len(rows), ROWS):
        batch = rows[first : first + ROWS]
        engine.decode(batch)
        for index, row in enumerate(batch):
            if row.sampled:
                prompts[row.seq] = [*prompts[row.seq], engine.sample(index, samplers[row.seq])]
    drawn = [[p[-1]] for p in prompts]
    for _ in range(9):
        engine.decode([Row(d[-1], engine.length(seq), seq, True) for seq, d in enumerate(drawn)])
        for seq, sampler in enumerate(samplers):
            drawn[seq].append(engine.sample(seq, sampler))
    for sampler in samplers:
        engine.free_sampler(sampler)
    assert drawn == expected


def test_seeds_decide(engine: Engine, prompt: list[int]) -> None:
    hot = [plain(engine, prompt, 12, Sampling(temperature=1.5, top_k=0, min_p=0, top_p=1, seed=s)) for s in (1, 1, 2)]
    assert hot[0] == hot[1]
    assert hot[0] != hot[2]


def test_logprobs_are_logarithms_of_probabilities(engine: Engine, prompt: list[int]) -> None:
    row = prefill(engine, 0, prompt)
    logprob, top = engine.logprobs(row, prompt[0], 5)
    assert logprob < 0
    assert len(top) == 5
    assert sorted((p for _, p in top), reverse=True) == [p for _, p in top]


def test_threads_can_change_between_steps(engine: Engine, prompt: list[int]) -> None:
    expected = plain(engine, prompt, 6, GREEDY)
    engine.set_threads(2, 2)
    assert plain(engine, prompt, 6, GREEDY) == expected
    engine.set_threads(1, 1)
