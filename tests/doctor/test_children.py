"""The children themselves with the real small model: quickly, since it is not the numbers that are tested."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from reame.doctor import losslessness
from reame.doctor.bench import MAX_ROWS, NUM_CELLS
from reame.doctor.child import ROWS
from reame.doctor.losslessness import SEQS
from reame.doctor.orders import Order
from reame.engine.fake import FakeEngine
from reame.engine.llama import LlamaOptions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reame.engine.base import Row

pytestmark = pytest.mark.model

OPTIONS = LlamaOptions(
    num_cells=NUM_CELLS, num_seqs=SEQS, max_rows=MAX_ROWS, max_sampled=MAX_ROWS, threads=2, prefill_threads=1
)


def answer(order: Order) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "reame.doctor.child", order.to_json()], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def facts(lines: list[dict[str, Any]], name: str) -> dict[Any, Any]:
    return {line["key"]: line["value"] for line in lines if line.get("fact") == name}


def test_the_model_is_measured_and_found_lossless(model_path: Path) -> None:
    lines = answer(Order(task="model", seconds=6, model=str(model_path), options=OPTIONS, threads=(2, 1)))
    assert lines[-1] == {"end": True}
    for name in ("decode", "few", "prefill"):
        times = facts(lines, name)
        assert set(times) == {1, 2}, name
        assert all(0 < seconds < 30 for seconds in times.values()), name
    steps, skipped = facts(lines, "steps"), {line.get("skipped", "") for line in lines}
    assert {1, 8} <= steps.keys() <= set(ROWS)
    assert len(steps) == len(ROWS) or any("rows and more" in words for words in skipped)
    assert facts(lines, "kv_bytes")[""] == pytest.approx(12_240, rel=0.02), "30 layers x 2 x 192 x 34 / 32 bytes"
    assert facts(lines, "anon_bytes")[""] > 20e6
    told = facts(lines, "lossless").get("")
    assert told == [0.0, 0.0, True] or any("texts" in words for words in skipped)


def test_variants_are_compared_and_the_library_survives(model_path: Path) -> None:
    order = Order(
        task="variants", seconds=6, model=str(model_path), options=OPTIONS,
        variants={"as it is": {}, "f16": {"kv_type": "f16"}},
    )  # fmt: skip
    lines = answer(order)
    assert lines[-1] == {"end": True}
    assert "as it is" in facts(lines, "variant")
    assert facts(lines, "variant").keys() | {"f16"} == {"as it is", "f16"}


def test_spinning_is_measured_beside_a_neighbour_that_goes_away(model_path: Path) -> None:
    lines = answer(Order(task="spin", seconds=2, model=str(model_path), options=OPTIONS))
    ((alone, beside),) = facts(lines, "spin").values()
    assert alone > 0
    assert beside > 0


class Rounding(FakeEngine):
    """Computes otherwise when several rows come together, as kernels of llama.cpp do for some weights."""

    def decode(self, rows: Sequence[Row]) -> None:
        self.crowded = len(rows) > 1
        super().decode(rows)

    def logprobs(self, row: int, token: int, top: int) -> tuple[float, tuple[tuple[int, float], ...]]:
        own, others = super().logprobs(row, token, top)
        return own - 0.25 * self.crowded, others


class Forgetful(FakeEngine):
    """What it restores is not what was saved."""

    def restore(self, seq: int, start: int, stop: int, data: bytes) -> None:
        super().restore(seq, start, stop, data)
        for cell in self.cells[:8]:
            cell.value += 1


@pytest.mark.parametrize(
    ("kind", "warm", "crowd"), [(FakeEngine, False, False), (Rounding, False, True), (Forgetful, True, False)]
)
def test_the_check_finds_what_is_not_lossless(kind: type[FakeEngine], *, warm: bool, crowd: bool) -> None:
    engine = kind(num_cells=1024, num_seqs=SEQS, max_rows=256, vocab_size=32)
    found = losslessness.check(engine)
    assert (found[0] > 0, found[1] > 0) == (warm, crowd)
    assert found[2] or warm
    assert all(engine.length(seq) == 0 for seq in range(SEQS)), "it leaves the engine empty"


def test_what_is_no_model_is_refused_in_words(tmp_path: Path) -> None:
    file = tmp_path / "nothing.gguf"
    file.write_bytes(b"GGUF and nothing else")
    lines = answer(Order(task="model", seconds=5, model=str(file), options=OPTIONS, threads=(1,)))
    assert "nothing.gguf" in lines[-1]["refused"]
