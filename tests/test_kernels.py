"""Reame's own kernels: the bits of ggml, whatever the shape, and what happens where they are missing or wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest
import tiny_models
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from test_lossless import run

from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.engine import kernels
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.engine.llama_library import load_library
from reame.engine.spin import FIXED
from reame.host.features import cpu_features

if TYPE_CHECKING:
    from pathlib import Path

HAS_KERNELS = {"avx2", "fma", "f16c"} <= set(cpu_features())
OWN = kernels.load(kernels.library_file())
GGML = load_library(spin_count=FIXED, exact=False, own_kernels=True)._lib

needs_kernels = pytest.mark.skipif(not HAS_KERNELS, reason="there are none for this CPU, as another test asserts")


def test_they_are_built_where_they_can_run() -> None:
    assert kernels.available() is HAS_KERNELS
    assert (OWN is not None) is HAS_KERNELS


@needs_kernels
@pytest.mark.parametrize("name", kernels.KINDS)
@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 40), blocks=st.integers(1, 7), columns=st.integers(1, 21))
def test_all_shapes_give_the_bits_of_ggml(name: str, rows: int, blocks: int, columns: int) -> None:
    assert OWN is not None
    assert kernels.agrees(OWN, GGML, name, rows=rows, blocks=blocks, columns=columns)


@needs_kernels
def test_a_kernel_that_computes_something_else_is_noticed_and_none_is_used(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    assert OWN is not None
    monkeypatch.setitem(kernels.KINDS, "Q5_K", evolve(kernels.KINDS["Q5_K"], number=12))  # type: ignore[index]
    try:
        assert not kernels.switch_on(OWN, GGML)
        assert "own kernels off: on this CPU they compute Q5_K otherwise than ggml" in caplog.text
    finally:
        monkeypatch.undo()
        assert kernels.switch_on(OWN, GGML)


@needs_kernels
def test_a_library_of_another_kind_is_said_and_a_missing_one_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert kernels.load(tmp_path / "missing.so") is None
    assert not caplog.text
    (tmp_path / "broken.so").write_text("no library")
    assert kernels.load(tmp_path / "broken.so") is None
    assert "own kernels off, run ./scripts/setup: " in caplog.text
    caplog.clear()
    assert kernels.load(_not_ours()) is None  # as one of an older checkout
    assert "reame_needed" in caplog.text


def _not_ours() -> Path:
    return next(path for path in kernels.library_file().parent.glob("python*/site-packages/llama_cpp/lib/libggml.so"))


LOGITS = """
import json, sys
from pathlib import Path
from reame.engine.base import Row
from reame.engine.llama import LlamaEngine, LlamaOptions
model, own, sizes = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3])
options = LlamaOptions(num_cells=256, threads=2, prefill_threads=2, own_kernels=own, extra_buffers=False)
engine, at, found = LlamaEngine(Path(model), options), 0, []
for size in sizes:
    rows = [Row(token=(7 * k) % 250 + 3, position=k, seq=0, sampled=True) for k in range(at, at + size)]
    engine.decode(rows)
    found += [engine.logprobs(k, 5, 3) for k in range(size)]
    at += size
assert ("reame-kernels" in Path("/proc/self/maps").read_text()) is own
print(json.dumps(found))
"""


def logits(model: Path, sizes: list[int], *, own: bool) -> object:
    words = [sys.executable, "-P", "-c", LOGITS, str(model), json.dumps(own), json.dumps(sizes)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "own kernels off" not in done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def k_model(tmp_path: Path) -> Path:
    return tiny_models.write_k_quants(tmp_path / "k.gguf")


@needs_kernels
@pytest.mark.model
@pytest.mark.parametrize("model", ["model_path", "k_model"])
def test_a_model_gives_the_bits_of_ggml_in_steps_of_any_size(model: str, request: pytest.FixtureRequest) -> None:
    """Products, and attention too, which is compared nowhere else."""
    path = request.getfixturevalue(model)
    plain = logits(path, [1] * 40, own=False)
    assert logits(path, [1] * 40, own=True) == plain
    assert logits(path, [40], own=True) == plain
    assert logits(path, [2, 3, 4, 5, 6, 7, 13], own=True) == plain


@needs_kernels
def test_ggml_itself_gives_k_quants_other_bits_in_a_larger_step(k_model: Path) -> None:
    """What the kernels are there for, and without which the tests beside this one would show nothing."""
    assert logits(k_model, [40], own=False) != logits(k_model, [1] * 40, own=False)


@needs_kernels
def test_k_quants_are_lossless_in_a_crowd(k_model: Path) -> None:
    options = LlamaOptions(num_cells=2048, num_seqs=12, max_rows=64, threads=2, extra_buffers=False)
    engine = LlamaEngine(k_model, options)
    random = Random(1)
    made = [
        Request(
            id=f"r{number}", prompt=tuple(random.choices(range(97, 123), k=5 + 9 * (number % 5))), max_tokens=30,
            sampling=Sampling(temperature=0) if number % 2 else Sampling(seed=number),
        )
        for number in range(10)
    ]  # fmt: skip
    bounds = Limits(max_running=8, max_rows=64, reserve=1, row_group=1)
    alone: dict[str, str] = {}
    for request in made:
        alone |= run(engine, [request], bounds)
    assert len(set(alone.values())) == len(made)
    assert run(engine, made, bounds) == alone
    engine.close()
