"""Memory before loading: what the head of a file tells, what that takes, and what is said when there is too little."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
import tiny_models
from attrs import asdict, evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.engine.footprint import PROCESS, cell_bytes, footprint
from reame.engine.gguf import ModelShape, read_shape
from reame.engine.llama import LlamaOptions
from reame.errors import ModelError
from reame.host.ram import Ram
from reame.runtime import fit
from reame.runtime.fit import expected, fitted

if TYPE_CHECKING:
    from pathlib import Path

MB = 1 << 20
OPTIONS = LlamaOptions(num_cells=16384, num_seqs=48, threads=2, prefill_threads=2)
SHAPE = ModelShape(
    architecture="llama", weight_bytes=98362432, kv_values=30 * 3 * 128, embedding=576, feed_forward=1536,
    vocab_size=49152, matrices={"Q8_0": 30081024}, context=8192,
)  # fmt: skip
X86, ARM = frozenset({"avx2", "avx512f"}), frozenset({"asimd", "asimddp"})


def test_the_shape_of_a_real_model(model_path: Path) -> None:
    assert read_shape([model_path]) == SHAPE


def test_cells_by_hand() -> None:
    """30 layers of 3 heads, 64 numbers each for keys and values; q8_0 takes 34 bytes for 32 of them."""
    assert cell_bytes(SHAPE, "q8_0") == 30 * 3 * 128 * 34 // 32 == 12240
    assert cell_bytes(SHAPE, "f16") == 23040


def _writer(file: Path, architecture: str = "gemma3") -> gguf.GGUFWriter:
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_block_count(3)
    writer.add_embedding_length(64)
    writer.add_head_count(4)
    writer.add_token_list(["a", "b", "ccc"] * 7)
    return writer


def written(file: Path, **keys: int | list[int]) -> Path:
    writer = _writer(file)
    for key, value in keys.items():
        name = f"gemma3.attention.{key}"
        writer.add_array(name, value) if isinstance(value, list) else writer.add_uint32(name, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return file


def test_heads_of_their_own_size_and_number_in_each_layer(tmp_path: Path) -> None:
    plain = read_shape([written(tmp_path / "a.gguf")])
    assert plain is not None
    assert (plain.kv_values, plain.vocab_size, plain.feed_forward) == (3 * 4 * (16 + 16), 21, 256)
    grouped = read_shape([written(tmp_path / "b.gguf", head_count_kv=[2, 0, 1], key_length=32, value_length=8)])
    assert grouped is not None
    assert grouped.kv_values == (2 + 0 + 1) * (32 + 8)


def test_an_encoder_keeps_nothing(tmp_path: Path) -> None:
    for architecture, kept in (("nomic-bert", 0), ("t5encoder", 0), ("gemma3", 3 * 4 * (16 + 16))):
        writer = _writer(tmp_path / architecture, architecture)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        shape = read_shape([tmp_path / architecture])
        assert shape is not None
        assert shape.kv_values == kept


def test_states_are_counted_for_all_sequences(tmp_path: Path) -> None:
    """Two of four layers: a convolution over 4 of 128 channels and 16 numbers for each; f32."""
    shape = read_shape([tiny_models.write_jamba(tmp_path / "jamba.gguf")])
    assert shape is not None
    assert (shape.kv_values, shape.state_values) == (2 * 2 * 32, 2 * (3 * 128 + 16 * 128))
    assert footprint(shape, OPTIONS, features=X86).states == (48 + 2) * 4 * shape.state_values
    recurrent = read_shape([tiny_models.write_mamba(tmp_path / "mamba.gguf")])
    assert recurrent is not None
    assert (recurrent.kv_values, recurrent.state_values) == (0, 2 * shape.state_values)


def test_too_many_states_are_refused_with_what_to_lower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tiny_models.write_mamba(tmp_path / "mamba.gguf")
    machine(monkeypatch, free=MB)
    with pytest.raises(ModelError, match=r"2 MiB for the states of 48 sequences.* lower engine\.residents"):
        fitted(path, OPTIONS, may_switch=True)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("heads") / "whole.gguf", head_count_kv=[2, 0, 1])


@settings(max_examples=300)
@given(cut=st.integers(0, 600), at=st.integers(0, 600), byte=st.integers(0, 255))
def test_a_damaged_head_is_not_known_or_read_but_never_an_error(whole: Path, cut: int, at: int, byte: int) -> None:
    data = bytearray(whole.read_bytes())
    data[at % len(data)] = byte
    file = whole.with_name("damaged.gguf")
    file.write_bytes(data[: len(data) - cut % len(data)])
    assert read_shape([file]) is None or isinstance(read_shape([file]), ModelShape)


RESIDENT = """
import json, re, sys
from pathlib import Path
from reame.engine.base import Row
from reame.engine.llama import LlamaEngine, LlamaOptions

def memory():
    text = Path("/proc/self/status").read_text()
    return {key: int(re.search(key + r":\\s+(\\d+)", text)[1]) << 10 for key in ("RssAnon", "RssFile")}

before = memory()
engine = LlamaEngine(Path(sys.argv[1]), LlamaOptions(**json.loads(sys.argv[2])))
engine.decode([Row(5, i, 0, True) for i in range(128)])
print(json.dumps({key: size - before[key] for key, size in memory().items()}))
"""


@pytest.mark.parametrize("changes", [{}, {"kv_type": "f16", "mmap": True}], ids=["default", "f16, mapped"])
def test_the_estimate_is_what_a_process_holds(model_path: Path, changes: dict[str, Any]) -> None:
    """Within a tenth: memory of its own, and with the pages of the file."""
    options = evolve(OPTIONS, **changes)
    words = [sys.executable, "-c", RESIDENT, str(model_path), json.dumps(asdict(options))]
    said = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    needs = expected(model_path, options)
    assert needs is not None
    assert needs.held - PROCESS == pytest.approx(said["RssAnon"], rel=0.1)
    assert needs.resident - PROCESS == pytest.approx(said["RssAnon"] + said["RssFile"], rel=0.1)


def test_repacked_weights_by_hand() -> None:
    """A Q4_K_M: its Q4_K is copied on x86, its Q6_K on ARM too, and the pages that were copied are not needed again."""
    shape = evolve(SHAPE, weight_bytes=1000 * MB, matrices={"Q4_K": 600 * MB, "Q6_K": 300 * MB})

    def needs(features: frozenset[str] = X86, **changes: Any) -> tuple[int, int, int]:
        found = footprint(shape, evolve(OPTIONS, **changes), features=features)
        assert found.held == found.weights + found.cells + found.work
        assert found.resident == found.held + found.pages
        return found.weights // MB, found.pages // MB, (found.total - found.cells - found.work) // MB

    assert needs(mmap=True) == (600, 1000, 1000)
    assert needs(ARM, mmap=True) == (900, 1000, 1000)
    assert needs(frozenset({"avx"}), mmap=True) == (0, 1000, 1000)
    assert needs(exact=True, mmap=True) == needs(extra_buffers=False, mmap=True) == (0, 1000, 1000)
    assert needs() == needs(mlock=True) == (1000, 0, 1000)
    assert needs(mmap=True, mlock=True) == (1600, 0, 1600)


def test_an_embedding_that_is_the_output_too_is_multiplied_with(tmp_path: Path) -> None:
    """Bytes of the kinds that may be repacked; a table that only rows are taken of is not among them."""
    table = np.zeros((8, 1, 18), np.uint8)  # 8 rows of 32 weights in Q4_0
    found = []
    for names in (["token_embd"], ["token_embd", "output"], ["token_embd", "output", "blk.0.ffn_up", "blk.0.bias"]):
        file = tmp_path / f"{len(names)}.gguf"
        writer = _writer(file)
        for name in names:
            writer.add_tensor(f"{name}.weight", table.reshape(8, 18), raw_dtype=gguf.GGMLQuantizationType.Q4_0)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        shape = read_shape([file])
        assert shape is not None
        found.append(shape.matrices)
    assert found == [{"Q4_0": 144}, {"Q4_0": 144}, {"Q4_0": 3 * 144}]


def machine(monkeypatch: pytest.MonkeyPatch, *, free: int, swap: int = 0) -> None:
    """So many bytes are free here."""
    there = Ram(
        total=free, available=free, limit=None, swap_total=swap, swap_used=0, swap_free=swap, swappiness=60,
        memlock=None, huge_pages="",
    )  # fmt: skip
    monkeypatch.setattr(fit, "ram", lambda: there)


def test_what_fits_is_taken_as_it_is(
    model_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    machine(monkeypatch, free=1 << 30)
    assert fitted(model_path, OPTIONS, may_switch=True) is OPTIONS
    assert caplog.records == []


def test_copies_of_the_weights_are_left_out_when_only_they_do_not_fit(
    model_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """First the file is mapped; then weights are not repacked either."""
    q4_0 = evolve(SHAPE, matrices={"Q4_0": 60 * MB})  # repacked on x86 and on ARM
    mapped = evolve(OPTIONS, mmap=True)
    monkeypatch.setattr(fit, "read_shape", lambda parts: q4_0)
    caplog.set_level(logging.WARNING)
    machine(monkeypatch, free=footprint(q4_0, OPTIONS, features=X86).held - MB, swap=1 << 30)
    assert fitted(model_path, OPTIONS, may_switch=True) == fitted(model_path, OPTIONS, may_switch=False) == mapped
    said = "the file is mapped: a copy of it would need 416 MiB in all, and 415 MiB of RAM are free"
    assert caplog.messages[0] == said
    caplog.clear()
    machine(monkeypatch, free=footprint(q4_0, mapped, features=X86).held - MB)
    for options in OPTIONS, mapped:
        assert fitted(model_path, options, may_switch=True) == evolve(mapped, extra_buffers=False)
    assert caplog.messages[:2] == [
        "extra buffers off: with weights repacked for this CPU it would need 416 MiB, and 381 MiB are free",
        "smollm2-135m.gguf wants 416 MiB and 381 MiB of memory are free: what does not fit is read from the disk again "
        "and again",
    ]
    with pytest.raises(ModelError, match="60 MiB of repacked weights, "):
        fitted(model_path, OPTIONS, may_switch=False)


def test_too_many_cells_are_refused_with_a_number_that_fits(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, free=200 * MB)
    with pytest.raises(ModelError) as refused:
        fitted(model_path, OPTIONS, may_switch=True)
    said = str(refused.value)
    assert "\n" not in said
    cells = re.search(r"lower engine\.cells to (\d+) or less", said)
    assert cells is not None
    fewer = evolve(OPTIONS, num_cells=int(cells[1]))
    assert fitted(model_path, fewer, may_switch=True).num_cells < OPTIONS.num_cells
    with pytest.raises(ModelError):
        fitted(model_path, evolve(fewer, num_cells=int(cells[1]) + 512), may_switch=True)


def test_swap_counts_and_no_number_of_cells_helps_where_there_is_nothing(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, free=20 * MB, swap=1 << 30)
    assert fitted(model_path, OPTIONS, may_switch=True) == evolve(OPTIONS, mmap=True)
    machine(monkeypatch, free=20 * MB)
    with pytest.raises(ModelError, match="take a smaller model or quantisation"):
        fitted(model_path, OPTIONS, may_switch=True)


def test_a_file_that_tells_nothing_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, free=0)
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF and then nothing of use")
    assert fitted(file, OPTIONS, may_switch=True) is OPTIONS


def test_what_another_model_will_take_is_not_there(model_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two models that fit one by one, and not together; swap is what is left at last."""
    needs = footprint(SHAPE, OPTIONS, features=X86).held
    machine(monkeypatch, free=2 * needs - MB)
    assert fitted(model_path, OPTIONS, may_switch=True) is OPTIONS
    mapped = evolve(OPTIONS, mmap=True)
    with pytest.raises(ModelError, match=r"MiB are free: take a smaller one$"):
        fitted(model_path, mapped, may_switch=False, beside=2 * needs - 2 * MB, cure="take a smaller one")
    machine(monkeypatch, free=needs, swap=2 * needs)
    assert fitted(model_path, OPTIONS, may_switch=True, beside=needs).mmap
    with pytest.raises(ModelError):
        fitted(model_path, OPTIONS, may_switch=True, beside=3 * needs)


def test_weights_of_own_kernels_are_not_repacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "_features", lambda: {"avx2"})
    k_quants, others = tiny_models.write_k_quants(tmp_path / "k.gguf"), tiny_models.write_jamba(tmp_path / "j.gguf")
    options = LlamaOptions(own_kernels=True, mmap=True)
    assert not fitted(k_quants, options, may_switch=True).extra_buffers
    assert fitted(k_quants, options, may_switch=False).extra_buffers, "as it was asked for"
    assert fitted(k_quants, evolve(options, own_kernels=False), may_switch=True).extra_buffers
    assert fitted(others, options, may_switch=True).extra_buffers
