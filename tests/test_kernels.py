"""Reame's own matrix kernels: the bits of ggml's vec_dot, whatever the shape, and what happens where they are missing."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.engine import kernels
from reame.engine.llama_library import load_library
from reame.engine.spin import FIXED
from reame.host.features import cpu_features

if TYPE_CHECKING:
    from pathlib import Path

HAS_AVX2 = {"avx2", "fma", "f16c"} <= set(cpu_features())
if HAS_AVX2:
    OWN = kernels.load(kernels.library_file())
    GGML = load_library(spin_count=FIXED, exact=False, own_kernels=True)._lib


def test_they_are_built_where_they_can_run() -> None:
    assert kernels.available() is HAS_AVX2


@pytest.mark.skipif(not HAS_AVX2, reason="there are no kernels for this CPU")
@pytest.mark.parametrize("name", kernels.KINDS)
@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 40), blocks=st.integers(1, 7), columns=st.integers(1, 21))
def test_all_shapes_give_the_bits_of_ggml(name: str, rows: int, blocks: int, columns: int) -> None:
    assert OWN is not None
    assert kernels.agrees(OWN, GGML, name, rows=rows, blocks=blocks, columns=columns)


@pytest.mark.skipif(not HAS_AVX2, reason="there are no kernels for this CPU")
def test_a_kernel_that_computes_something_else_is_noticed_and_none_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert OWN is not None
    on = ctypes.c_int.in_dll(OWN, "reame_kernels_on")
    as_q4 = kernels.KINDS["Q4_K"]
    monkeypatch.setitem(kernels.KINDS, "Q5_K", as_q4)  # type: ignore[index]
    try:
        assert not kernels.switch_on(OWN, GGML)
        assert on.value == 0
        assert "own kernels off: on this CPU they compute Q5_K otherwise than ggml" in caplog.text
    finally:
        monkeypatch.undo()
        assert kernels.switch_on(OWN, GGML)
        assert on.value == 1


def test_a_library_that_is_none_is_said_and_a_missing_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert kernels.load(tmp_path / "missing.so") is None
    assert not caplog.text
    (tmp_path / "broken.so").write_text("no library")
    assert kernels.load(tmp_path / "broken.so") is None
    assert "own kernels off: " in caplog.text
    assert "broken.so" in caplog.text


LOGITS = """
import json, sys
from pathlib import Path
from reame.engine.base import Row
from reame.engine.llama import LlamaEngine, LlamaOptions
model, own, extra, sizes = sys.argv[1], sys.argv[2] == "own", sys.argv[3] == "extra", json.loads(sys.argv[4])
options = LlamaOptions(num_cells=256, threads=2, prefill_threads=2, own_kernels=own, extra_buffers=extra)
engine, at, best = LlamaEngine(Path(model), options), 0, []
for size in sizes:
    rows = [Row(token=(7 * k) % 500 + 3, position=k, seq=0, sampled=True) for k in range(at, at + size)]
    engine.decode(rows)
    best += [engine.logprobs(k, 5, 3) for k in range(size)]
    at += size
print(json.dumps(best))
"""


def logits(model: Path, sizes: list[int], *, own: bool, extra: bool = True) -> object:
    words = [str(model), "own" if own else "ggml", "extra" if extra else "plain", json.dumps(sizes)]
    done = subprocess.run([sys.executable, "-P", "-c", LOGITS, *words], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.model
def test_a_model_gives_the_same_bits_with_them_and_in_steps_of_any_size(model_path: Path) -> None:
    plain = logits(model_path, [1] * 24, own=False)
    assert logits(model_path, [1] * 24, own=True) == plain
    assert logits(model_path, [24], own=True) == plain
    assert logits(model_path, [2, 3, 4, 5, 10], own=True) == plain
