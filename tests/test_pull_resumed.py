"""What earlier pulls left: a part is hashed before the download goes on, and a file of another repository is told."""

from __future__ import annotations

import gc
import json
from threading import Event
from typing import TYPE_CHECKING

import pytest
import trio
from attrs import asdict
from hub_server import KEY, SPEC, Heard, HubServer, fetched, gguf, visible

from reame import pull_file
from reame.errors import ModelError
from reame.pull import ensure
from reame.pull_file import Identity, Part

if TYPE_CHECKING:
    from pathlib import Path

LEFT = ["tiny-q4_0.gguf.part", "tiny-q4_0.gguf.part.json"]


async def test_a_file_of_the_same_name_from_another_repository_is_not_taken_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = "hf:another/Tiny-GGUF/tiny-q4_0.gguf"
    for hub in HubServer(files={KEY: gguf(1000), other.removeprefix("hf:"): gguf(1000, seed=2)}).running():
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("NO_PROXY", "*")
        assert await fetched(tmp_path) == gguf(1000)
        with pytest.raises(ModelError, match=f"is {SPEC}, not {other}"):
            await ensure(other, tmp_path, pause=0)
        (tmp_path / "tiny-q4_0.gguf").unlink()
        assert await fetched(tmp_path, other) == gguf(1000, seed=2)


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A models directory with 1000 bytes of a model, hashed in chunks of 10."""
    monkeypatch.setattr(pull_file, "CHUNK_BYTES", 10)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    part, note = (tmp_path / name for name in LEFT)
    part.write_bytes(b"GGUF" + bytes(996))
    note.write_text(json.dumps(asdict(Identity(size=5000, sha256="0" * 64))))
    return tmp_path


async def test_the_hashing_is_announced_and_ends_after_a_chunk_when_cancelled(
    left: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, looks = Event(), []
    check_cancelled = trio.from_thread.check_cancelled

    class Impatient(Heard):
        def say(self, line: str) -> None:
            super().say(line)
            scope.cancel()
            trio.lowlevel.current_trio_token().run_sync_soon(arrived.set)  # once the pull's task has heard of it

    def look() -> None:
        looks.append(1)
        arrived.wait()
        check_cancelled()

    monkeypatch.setattr(trio.from_thread, "check_cancelled", look)
    heard = Impatient()
    before = (left / LEFT[0]).read_bytes()
    with trio.CancelScope() as scope, trio.fail_after(30):
        await ensure(SPEC, left, progress=heard)
    assert scope.cancelled_caught
    assert looks == [1]
    assert heard.lines == ["tiny-q4_0.gguf: checking the 1 kB that are here"]
    assert visible(left) == LEFT
    assert (left / LEFT[0]).read_bytes() == before


def test_hashing_that_is_given_up_leaves_the_part(left: Path) -> None:
    told, chunks = [], []

    def go_on() -> None:
        chunks.append(1)
        if len(chunks) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Part.open(left / "tiny-q4_0.gguf", told=told.append, go_on=go_on)
    gc.collect()  # a file left open would warn
    assert (told, len(chunks)) == ([1000], 3)
    assert visible(left) == LEFT
    with Part.open(left / "tiny-q4_0.gguf") as part:
        assert part.size == 1000
