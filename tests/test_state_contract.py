"""What the step loop may rely on where a sequence has a state that cannot be cut: on the fake, and on llama.cpp with
tiny random models: a recurrent one, which has no cells, and two hybrids, which have both."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import tiny_models
from test_engine_contract import GREEDY, SEEDED, generate, plain, prefill, wipe

from reame.core.compaction import Segment
from reame.doctor.bench import DEPTH, Bench
from reame.doctor.losslessness import SEQS as CROWD
from reame.doctor.losslessness import check
from reame.engine.base import Engine, Row
from reame.engine.canary import try_model
from reame.engine.fake import FakeEngine
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.errors import EngineError, ModelError
from reame.runtime.drafting import load_draft_model

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reame.core.request import Sampling

CELLS, SEQS, ROWS = 512, 5, 64
KINDS = {"mamba": tiny_models.write_mamba, "jamba": tiny_models.write_jamba, "lfm2": tiny_models.write_lfm2}


@pytest.fixture(scope="module", params=["fake", *KINDS])
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    if request.param == "fake":
        yield FakeEngine(num_cells=CELLS, num_seqs=SEQS, max_rows=ROWS, vocab_size=32, whole_state=True)
        return
    path = KINDS[request.param](tmp_path_factory.mktemp("models") / f"{request.param}.gguf")
    engine = LlamaEngine(path, LlamaOptions(num_cells=CELLS, num_seqs=SEQS, max_rows=ROWS, threads=1))
    yield engine
    engine.close()


@pytest.fixture
def engine(opened: Engine) -> Iterator[Engine]:
    yield opened
    wipe(opened)


@pytest.fixture
def prompt(engine: Engine) -> list[int]:
    return engine.vocabulary.tokenize("the river runs past the old mill, slowly", add_special=True, parse_special=False)


def test_it_says_that_it_has_a_state(engine: Engine) -> None:
    assert engine.info.whole_state


@pytest.mark.parametrize("chunk", [1, 2, 3, 5, 8])
def test_any_chunk_size_gives_the_same_text(engine: Engine, prompt: list[int], chunk: int) -> None:
    expected = plain(engine, prompt, 24, SEEDED)
    row = prefill(engine, 2, prompt, chunk=chunk)
    assert generate(engine, 2, row, 24, SEEDED, prompt) == expected


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_a_copied_state_goes_its_own_way(engine: Engine, prompt: list[int], sampling: Sampling) -> None:
    """While the donor goes on, and after it is gone."""
    expected = plain(engine, prompt, 24, sampling)
    prefill(engine, 0, prompt[:10])
    engine.copy(0, 3, 10)
    engine.copy(3, 1, 10)
    row = prefill(engine, 0, prompt[10:])
    assert generate(engine, 0, row, 24, sampling, prompt) == expected
    prefill(engine, 3, prompt[:7])
    engine.trim(0, 0)
    engine.trim(3, 0)
    assert [engine.length(seq) for seq in range(SEQS)] == [0, 10, 0, 0, 0]
    row = prefill(engine, 1, prompt[10:])
    assert generate(engine, 1, row, 24, sampling, prompt) == expected


def test_what_would_cut_a_state_is_an_engine_error_and_passes(engine: Engine, prompt: list[int]) -> None:
    expected = plain(engine, prompt, 6, GREEDY)
    row = prefill(engine, 0, prompt)
    for cut in (lambda: engine.copy(0, 1, 5), lambda: engine.trim(0, 5), lambda: engine.save(0, 0, 5)):
        with pytest.raises(EngineError):
            cut()
    engine.trim(0, len(prompt))
    assert [engine.length(seq) for seq in range(2)] == [len(prompt), 0]
    assert generate(engine, 0, row, 6, GREEDY, prompt) == expected


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_a_saved_state_comes_back_bit_for_bit(engine: Engine, prompt: list[int], sampling: Sampling) -> None:
    """Beside other sequences, and in another one than it came from."""
    expected = plain(engine, prompt, 20, sampling)
    prefill(engine, 0, prompt[:12])
    state = engine.save(0, 0, 12)
    row = prefill(engine, 0, prompt[12:])
    assert generate(engine, 0, row, 20, sampling, prompt) == expected
    wipe(engine)
    prefill(engine, 1, prompt[::-1])
    engine.restore(2, 0, 12, state)
    assert engine.length(2) == 12
    assert engine.save(2, 0, 12) == state
    row = prefill(engine, 2, prompt[12:])
    assert generate(engine, 2, row, 20, sampling, prompt) == expected


def test_bytes_that_are_no_state_are_an_engine_error_and_pass(engine: Engine, prompt: list[int]) -> None:
    expected = plain(engine, prompt, 6, GREEDY)
    prefill(engine, 0, prompt[:8])
    state = engine.save(0, 0, 8)
    for stop, data in ((7, state), (9, state), (8, state[: len(state) // 2]), (8, state[:9]), (8, b"")):
        with pytest.raises(EngineError):
            engine.restore(1, 0, stop, data)
        engine.trim(1, 0)
    wipe(engine)
    assert plain(engine, prompt, 6, GREEDY) == expected


@pytest.mark.parametrize("sampling", [GREEDY, SEEDED])
def test_a_compaction_keeps_what_is_held(engine: Engine, prompt: list[int], sampling: Sampling) -> None:
    """Two sequences with a common prefix, one of them a checkpoint; garbage before and between their cells."""
    expected = plain(engine, prompt, 20, sampling)
    prefill(engine, 3, prompt[3:9])
    prefill(engine, 0, prompt[:9])
    engine.copy(0, 1, 9)
    prefill(engine, 3, prompt[:4])
    prefill(engine, 0, prompt[9:12])
    engine.trim(3, 0)
    engine.compact((Segment((0, 1), 0, tuple(range(6, 15))), Segment((0,), 9, tuple(range(19, 22)))))
    assert [engine.length(seq) for seq in range(4)] == [12, 9, 0, 0]
    row = prefill(engine, 0, prompt[12:])
    assert generate(engine, 0, row, 20, sampling, prompt) == expected
    row = prefill(engine, 1, prompt[9:])
    assert generate(engine, 1, row, 20, sampling, prompt) == expected


def test_sequences_of_different_lengths_in_one_batch_do_not_touch_each_other(
    engine: Engine, prompt: list[int]
) -> None:
    prompts = [prompt[:3], prompt[3:], prompt[5:25:2], prompt[:1]]
    expected = [plain(engine, p, 8, SEEDED) for p in prompts]
    rows = [Row(t, i, seq, i == len(p) - 1) for seq, p in enumerate(prompts) for i, t in enumerate(p)]
    assert len(rows) <= ROWS
    engine.decode(rows)
    samplers = [engine.new_sampler(SEEDED, p) for p in prompts]
    last = [index for index, row in enumerate(rows) if row.sampled]
    drawn = [[engine.sample(row, sampler)] for row, sampler in zip(last, samplers, strict=True)]
    for _ in range(7):
        engine.decode([Row(d[-1], engine.length(seq), seq, True) for seq, d in enumerate(drawn)])
        for seq, sampler in enumerate(samplers):
            drawn[seq].append(engine.sample(seq, sampler))
    for sampler in samplers:
        engine.free_sampler(sampler)
    assert drawn == expected


def test_the_canary_and_the_doctor_work_with_a_state(tmp_path: Path) -> None:
    path = tiny_models.write_jamba(tmp_path / "jamba.gguf")
    try_model(path, LlamaOptions(num_cells=512, num_seqs=1, max_rows=64, max_sampled=1))
    bench = Bench(path, LlamaOptions(num_cells=1024, num_seqs=CROWD, max_rows=256, max_sampled=256))
    for _ in range(2):
        assert bench.step(4) > 0
        assert [bench.engine.length(seq) for seq in (0, 1)] == [DEPTH, 0]
    assert bench.save_and_restore()[2] > 0
    assert check(bench.engine) == (0.0, 0.0, True)
    bench.close()


def test_it_is_no_draft_model(tmp_path: Path) -> None:
    path = tiny_models.write_mamba(tmp_path / "mamba.gguf")
    with pytest.raises(ModelError, match=r"mamba\.gguf has a recurrent state.* choose an attention model"):
        load_draft_model((path, LlamaOptions(num_cells=64, num_seqs=1)), FakeEngine(), None)  # type: ignore[arg-type]
