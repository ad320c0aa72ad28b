"""Losslessness of models with a sliding window. llama.cpp keeps the windowed layers in a cache of their own, and there
it takes a cell that one sequence alone holds for free when that sequence's window has passed it: but what the window
has passed for one text is still the beginning of another.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
import tiny_models
from test_engine_contract import GREEDY, generate, plain, prefill, wipe
from test_lossless import run

from reame.core.compaction import moves, segments
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.engine.llama import LlamaEngine, LlamaOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

CELLS, WINDOW = 1024, tiny_models.WINDOW


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaEngine]:
    path = tiny_models.write_gemma3(tmp_path_factory.mktemp("models") / "gemma3.gguf")
    engine = LlamaEngine(path, LlamaOptions(num_cells=CELLS, num_seqs=12, max_rows=64, threads=1))
    assert engine.info.sliding_window == WINDOW
    yield engine
    engine.close()


def words(seed: int, length: int) -> list[int]:
    return Random(seed).choices(range(97, 123), k=length)


def test_a_compaction_keeps_what_the_window_has_passed(engine: LlamaEngine) -> None:
    """A hole before a text of more than two windows and another one: the second one's beginning does not fit into the
    hole, and what comes behind it in the cache are cells that the first one's window has passed."""
    hole, long, short = words(1, WINDOW - 14), words(2, 2 * WINDOW + 8), words(3, WINDOW + 6)
    expected = [plain(engine, tokens, 20, GREEDY) for tokens in (long, long[: WINDOW + 4], short)]
    prefill(engine, 0, hole)
    prefill(engine, 1, long[:-1])
    prefill(engine, 2, short[:-1])
    engine.trim(0, 0)
    bounds = [len(hole), len(hole) + len(long) - 1, len(hole) + len(long) + len(short) - 2]
    held = {1: list(range(bounds[0], bounds[1])), 2: list(range(bounds[1], bounds[2]))}
    pieces, _ = moves(segments(held, WINDOW), list(range(len(hole))))
    engine.compact(pieces)
    engine.copy(1, 3, WINDOW + 3)
    for seq, tokens, text in zip((1, 3, 2), (long, long[: WINDOW + 4], short), expected, strict=True):
        row = prefill(engine, seq, tokens[-1:])
        assert generate(engine, seq, row, 20, GREEDY, tokens) == text
    wipe(engine)


def test_a_crowd_in_a_tiny_cache_gets_what_each_gets_alone(
    engine: LlamaEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With common beginnings, preemption and many compactions."""
    stem = words(0, 90)
    made = [
        Request(
            id=f"r{number}", prompt=(*(stem if number % 2 else ()), *words(number, 20 + 17 * (number % 6))),
            max_tokens=40, sampling=Sampling(temperature=0) if number % 4 < 2 else Sampling(seed=number),
        )
        for number in range(16)
    ]  # fmt: skip
    bounds = Limits(max_running=4, max_rows=64, reserve=1, min_garbage=8, longest_move=WINDOW, row_group=1)
    alone: dict[str, str] = {}
    for request in made:
        alone |= run(engine, [request], bounds)
    assert len(set(alone.values())) == len(made)
    monkeypatch.setattr(engine, "num_cells", 420)
    assert run(engine, made, bounds) == alone
