"""Names of models and what they mean; no network."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reame.catalog import (
    CATALOG,
    DEFAULT_MODEL,
    HubFile,
    entry,
    identify,
    installed,
    models_dir,
    parse_hub,
    resolve,
    split_parts,
)
from reame.catalog_origin import note_origin
from reame.catalog_types import Entry, WheelFile
from reame.config import EngineConfig, ModelConfig
from reame.errors import ModelError

NAMES = [known.name for known in CATALOG]


def put(directory: Path, *names: str, data: bytes = b"GGUF\3") -> None:
    for name in names:
        (directory / name).write_bytes(data)


def refusal(spec: str, directory: Path) -> str:
    with pytest.raises(ModelError) as caught:
        resolve(spec, directory)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_the_catalogue_is_consistent() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({str(known.source) for known in CATALOG}) == len(CATALOG)
    for known in CATALOG:
        assert re.fullmatch(r"[a-z0-9][a-z0-9.-]*", known.name)
        assert known.source.quantisation
        assert known.ram > known.size > 50_000_000
        assert 2048 <= known.context <= 262_144
        assert 10 < len(known.advice) <= 110
        assert known.advice.endswith(".")
        if isinstance(known.source, HubFile):
            assert parse_hub(str(known.source)) == known.source


def test_the_models_that_were_promised_are_there() -> None:
    promised = "smollm2-135m qwen2.5-0.5b qwen2.5-1.5b qwen2.5-3b qwen2.5-7b qwen2.5-coder-0.5b qwen2.5-coder-1.5b"
    assert {*promised.split(), "olmoe-7b-a1b", "trilm-3.9b"} <= set(NAMES)
    trilm = entry("trilm-3.9b")
    assert trilm is not None
    assert trilm.source.quantisation == "TQ2_0"
    assert ModelConfig().path == DEFAULT_MODEL
    assert isinstance(CATALOG[0].source, WheelFile)


def test_ram_is_weights_and_cache_and_runtime() -> None:
    tiny = Entry(
        name="x", title="", source=HubFile("o/r", "x-q8_0.gguf"), size=1000, kv_values=64, context=100, advice=""
    )
    assert tiny.ram == 1000 + 200 * 68 + (256 << 20)  # 200 cells, 64 values of 34/32 bytes
    assert CATALOG[0].ram == CATALOG[0].size + 2 * EngineConfig().context * 12_240 + (256 << 20)  # facts: 12 KB a token
    assert not Entry(
        name="x", title="", source=tiny.source, size=5_000_000, kv_values=1, context=1, advice=""
    ).size_is_exact


def test_where_models_are() -> None:
    assert models_dir({"REAME_MODELS": "/srv/models", "HOME": "/home/u"}) == Path("/srv/models")
    assert models_dir({"REAME_MODELS": "", "HOME": "/home/u"}) == Path("/home/u/.reame/models")
    assert models_dir({"REAME_MODELS": "here"}) == Path.cwd() / "here"


def test_no_home_asks_for_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    with pytest.raises(ModelError, match="set REAME_MODELS"):
        models_dir({})


@pytest.mark.parametrize(
    ("spec", "file"),
    [
        ("qwen2.5-0.5b", "qwen2.5-0.5b.gguf"),
        ("QWEN2.5-0.5B", "qwen2.5-0.5b.gguf"),
        ("qwen2.5-0", "qwen2.5-0.5b.gguf"),
        ("olmoe", "olmoe-7b-a1b.gguf"),
        ("My-Own", "My-Own.Q4.gguf"),
        ("My-Own.Q4", "My-Own.Q4.gguf"),
        ("My-Own.Q4.gguf", "My-Own.Q4.gguf"),
        ("big", "Big-00001-of-00002.gguf"),
        ("hf:unsloth/My-Own-GGUF/My-Own.Q4.gguf", "My-Own.Q4.gguf"),
    ],
)
def test_a_name_means_a_file(tmp_path: Path, spec: str, file: str) -> None:
    put(tmp_path, "qwen2.5-0.5b.gguf", "olmoe-7b-a1b.gguf", "My-Own.Q4.gguf", ".hidden.gguf", "x.gguf.part")
    put(tmp_path, "Big-00001-of-00002.gguf", "Big-00002-of-00002.gguf")
    assert resolve(spec, tmp_path) == tmp_path / file
    assert list(installed(tmp_path)) == ["Big", "My-Own.Q4", "olmoe-7b-a1b", "qwen2.5-0.5b"]


def test_a_path_means_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, "qwen2.5-0.5b.gguf", "no-suffix")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve(str(tmp_path / "qwen2.5-0.5b.gguf"), tmp_path / "none") == tmp_path / "qwen2.5-0.5b.gguf"
    assert resolve("qwen2.5-0.5b.gguf", tmp_path / "none") == Path("qwen2.5-0.5b.gguf")
    assert resolve("./no-suffix", tmp_path / "none") == Path("no-suffix")
    assert resolve("~/no-suffix", tmp_path / "none") == tmp_path / "no-suffix"


def test_a_name_of_the_catalogue_that_is_not_here(tmp_path: Path) -> None:
    line = refusal("qwen2.5-7", tmp_path / "none")
    assert line.startswith(f"qwen2.5-7b is in the catalogue but not in {tmp_path / 'none'}: run `reame pull ")
    assert "run `reame pull hf:o/r/m.gguf`" in refusal("hf:o/r/m.gguf", tmp_path)


def test_an_ambiguous_name_lists_what_it_could_be(tmp_path: Path) -> None:
    put(tmp_path, "qwen2.5-coder-mine.gguf")
    line = refusal("qwen2.5-coder", tmp_path)
    coders = [name for name in NAMES if name.startswith("qwen2.5-coder")]
    assert line == f"'qwen2.5-coder' could be {', '.join([*coders, 'qwen2.5-coder-mine'])}: give more of the name"


def test_a_misspelt_name_gets_a_hint(tmp_path: Path) -> None:
    put(tmp_path, "my-finetune.gguf")
    assert "did you mean smollm2-135m" in refusal("smolm2-135m", tmp_path)
    assert "did you mean my-finetune?" in refusal("my-fintune", tmp_path)
    assert "`reame list` shows the names" in refusal("zzzz", tmp_path)
    assert "`reame list` shows the names" in refusal("", tmp_path)


@pytest.mark.parametrize(
    "spec", ["hf:", "hf:o/m.gguf", "hf:o/r/m.bin", "hf:o/../m.gguf", "hf:o/r/../../m.gguf", "hf:o/r/m n.gguf"]
)
def test_what_is_no_hub_file(tmp_path: Path, spec: str) -> None:
    assert "hf:owner/repository/file.gguf" in refusal(spec, tmp_path)


def test_hub_files_of_different_repositories_do_not_meet(tmp_path: Path) -> None:
    one, two = identify("hf:a/Tiny-GGUF/model.gguf", tmp_path), identify("hf:a/Other-gguf/model.gguf", tmp_path)
    assert (one.path.name, two.path.name) == ("Tiny-model.gguf", "Other-model.gguf")
    assert identify("hf:a/Tiny-GGUF/sub/tiny-q4_0.gguf", tmp_path).path == tmp_path / "tiny-q4_0.gguf"


def test_a_file_that_came_from_another_repository_is_not_taken(tmp_path: Path) -> None:
    put(tmp_path, "X-Q4_0.gguf")
    theirs, ours = "hf:Qwen/X-GGUF/X-Q4_0.gguf", "hf:unsloth/X-GGUF/X-Q4_0.gguf"
    assert resolve(ours, tmp_path) == tmp_path / "X-Q4_0.gguf"  # nobody knows where it came from
    note_origin(tmp_path / "X-Q4_0.gguf", parse_hub(theirs))
    assert resolve(theirs.replace("Qwen", "qwen"), tmp_path) == tmp_path / "X-Q4_0.gguf"
    assert f"is {theirs}, not {ours}" in refusal(ours, tmp_path)
    assert "`reame rm X-Q4_0`" in refusal(ours, tmp_path)
    os.utime(tmp_path / "X-Q4_0.gguf", (1, 1))  # somebody put another file there
    assert resolve(ours, tmp_path) == tmp_path / "X-Q4_0.gguf"
    for damage in (b"", b"\xff", b"x", b" 1000000000"):
        (tmp_path / ".X-Q4_0.gguf.lock").write_bytes(damage)
        assert resolve(ours, tmp_path) == tmp_path / "X-Q4_0.gguf"


def test_files_that_are_no_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path, "page.gguf", "qwen2.5-0.5b.gguf", data=b"<!DOCTYPE html>")
    put(tmp_path, "empty.gguf", data=b"")
    put(tmp_path, "Big-00001-of-00003.gguf", "Big-00002-of-00003.gguf")
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nowhere")
    for spec in ("page", "page.gguf", "empty", "qwen2.5-0.5b"):
        assert "is not a GGUF file" in refusal(spec, tmp_path)
    assert "Is a directory" in refusal("./folder.gguf", tmp_path)
    assert "No such file" in refusal("gone", tmp_path)
    assert "Big-00003-of-00003.gguf': No such file" in refusal("Big", tmp_path)
    assert "give the first, Big-00001-of-00003.gguf" in refusal("Big-00002-of-00003.gguf", Path())
    assert "hf:unsloth/Qwen3-4B-GGUF/a.gguf" in refusal("unsloth/Qwen3-4B-GGUF/a.gguf", tmp_path)


@example("~nobody-here/m.gguf")
@example("a\0/m.gguf")
@example("a/\n")
@example("a" * 300 + ".gguf")
@given(st.text(max_size=20) | st.from_regex(r"(hf:)?[a-z~./\0-]{0,10}(\.gguf)?", fullmatch=True))
def test_any_text_ends_in_one_clear_line(spec: str) -> None:
    assert len(refusal(spec, Path("/nonexistent"))) > 20


def test_parts_of_a_split_model() -> None:
    assert split_parts(Path("m/a-00001-of-00002.gguf")) == [
        Path("m/a-00001-of-00002.gguf"),
        Path("m/a-00002-of-00002.gguf"),
    ]
    assert split_parts(Path("m/a.gguf")) == [Path("m/a.gguf")]
