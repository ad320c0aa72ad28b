"""Downloads from a hub over real sockets: whole, cut, killed, changed, shared, split; the bytes come out the same."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import deque
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING

import httpx2
import pytest
import trio
from hub_server import KEY, SPEC, Heard, HubServer, fetched, gguf, refusal, visible
from hypothesis import given, settings
from hypothesis import strategies as st

from reame import pull_http
from reame.catalog import identify, parse_hub
from reame.errors import ModelError
from reame.pull import ensure, pull
from reame.pull_file import Part
from reame.pull_hub import Hub

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = gguf(700_001)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer(files={KEY: DATA})
    for running in server.running():
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


async def test_a_whole_download_is_checked_and_put_in_place(hub: HubServer, tmp_path: Path) -> None:
    heard = Heard()
    assert await fetched(tmp_path / "new" / "models", heard=heard) == DATA
    assert (heard.done, heard.total, heard.lines) == (len(DATA), len(DATA), [])
    assert hub.to("hub")[0].path == "/owner/Tiny-GGUF/resolve/main/tiny-q4_0.gguf"


async def test_a_model_that_is_here_needs_no_network(hub: HubServer, tmp_path: Path) -> None:
    await fetched(tmp_path)
    hub.asked.clear()
    assert await fetched(tmp_path) == DATA
    assert hub.asked == []


async def test_a_cut_connection_goes_on_where_it_was(hub: HubServer, tmp_path: Path) -> None:
    hub.faults = deque([300_000, 100_000])
    heard = Heard()
    assert await fetched(tmp_path, heard=heard) == DATA
    ranges = [asked.range for asked in hub.to("storage")]
    assert ranges == [None, "bytes=300000-", "bytes=400000-"]
    assert heard.done == len(DATA)
    assert "trying again from 300 kB" in heard.lines[0]


@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, len(DATA)), max_size=pull_http.MAX_TRIES - 1))
async def test_any_cuts_give_the_same_file(cuts: list[int]) -> None:
    with TemporaryDirectory() as directory:
        for hub in HubServer(files={KEY: DATA}, faults=deque(cuts)).running():
            with Part.open(Path(directory, "m.gguf")) as part:
                await pull_http.Download(parse_hub(SPEC), Hub(httpx2.URL(hub.url), ""), part, Heard(), 0.0).run()
        assert await trio.Path(directory, "m.gguf").read_bytes() == DATA


async def test_a_line_that_never_lasts_ends_in_one_line_and_keeps_what_came(hub: HubServer, tmp_path: Path) -> None:
    hub.faults = deque([250_000] + [0] * 20)
    line = await refusal(tmp_path)
    assert line.startswith("tiny-q4_0.gguf stopped at 250 kB (")
    assert "run the same command again" in line
    assert len(hub.to("storage")) == 1 + pull_http.MAX_TRIES - 1
    hub.faults.clear()
    assert await fetched(tmp_path) == DATA
    assert hub.to("storage")[-1].range == "bytes=250000-"


async def test_a_killed_pull_goes_on_where_it_was(hub: HubServer, tmp_path: Path) -> None:
    hub.release = gate = Event()
    code = (
        "import sys, trio\nfrom pathlib import Path\nfrom reame.pull import ensure\n"
        "class Told:\n"
        "    def begin(self, name, *, total, done): pass\n"
        "    def say(self, line): pass\n"
        "    def advance(self, count): print(count, flush=True)\n"
        "async def main(): await ensure(sys.argv[1], Path(sys.argv[2]), progress=Told())\n"
        "trio.run(main)\n"
    )
    command = [sys.executable, "-c", code, SPEC, str(tmp_path)]
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(start)
        assert process.stdout is not None
        assert int(await process.stdout.receive_some()) > 0
        process.send_signal(signal.SIGKILL)
        await process.stdout.aclose()
    held = (tmp_path / "tiny-q4_0.gguf.part").stat().st_size
    assert 0 < held < len(DATA)
    gate.set()
    assert await fetched(tmp_path) == DATA
    assert hub.to("storage")[-1].range == f"bytes={held}-"


async def test_a_part_that_is_whole_is_put_in_place_without_the_network(hub: HubServer, tmp_path: Path) -> None:
    hub.faults = deque([300_000] + [0] * 9)
    await refusal(tmp_path)
    with (tmp_path / "tiny-q4_0.gguf.part").open("ab") as part:
        part.write(DATA[300_000:])
    hub.asked.clear()
    assert await fetched(tmp_path) == DATA
    assert hub.asked == []


@pytest.mark.parametrize("etags", [True, False])
async def test_a_file_that_changed_meanwhile_begins_anew(hub: HubServer, tmp_path: Path, *, etags: bool) -> None:
    hub.etags = etags
    hub.faults = deque([300_000] + [0] * 9)
    await refusal(tmp_path)
    hub.files[KEY] = new = gguf(500_000, seed=2)
    hub.faults.clear()
    assert await fetched(tmp_path) == new


@pytest.mark.parametrize("note", ["", "[]", '{"size": 5}', None])
async def test_a_part_with_a_damaged_note_is_worth_nothing(hub: HubServer, tmp_path: Path, note: str | None) -> None:
    (tmp_path / "tiny-q4_0.gguf.part").write_bytes(b"GGUF of something else")
    if note is not None:
        (tmp_path / "tiny-q4_0.gguf.part.json").write_text(note)
    heard = Heard()
    assert await fetched(tmp_path, heard=heard) == DATA
    assert heard.lines == []


async def test_a_damaged_part_is_noticed_and_deleted(hub: HubServer, tmp_path: Path) -> None:
    hub.faults = deque([300_000] + [0] * 9)
    await refusal(tmp_path)
    with (tmp_path / "tiny-q4_0.gguf.part").open("r+b") as part:
        part.seek(1000)
        part.write(b"\0")
    hub.faults.clear()
    line = await refusal(tmp_path)
    assert "arrived damaged" in line
    assert "run the same command again" in line
    assert visible(tmp_path) == []
    assert await fetched(tmp_path) == DATA


async def test_the_storages_etag_is_not_taken_for_a_checksum(hub: HubServer, tmp_path: Path) -> None:
    """Xet storage answers with another hash that also has 64 hex digits."""
    hub.redirects = False
    hub.linked = {}
    heard = Heard()
    assert await fetched(tmp_path, heard=heard) == DATA
    assert heard.lines == ["tiny-q4_0.gguf: the server names no checksum, only the size was checked"]


async def test_a_mirror_without_redirects_resumes_by_its_etag(hub: HubServer, tmp_path: Path) -> None:
    hub.redirects = False
    hub.faults = deque([300_000])
    assert await fetched(tmp_path) == DATA
    first, second = hub.to("hub")
    assert (first.range, second.range) == (None, "bytes=300000-")
    assert len(second.headers["if-range"]) == 66


async def test_a_mirror_without_any_names_never_joins_two_files(hub: HubServer, tmp_path: Path) -> None:
    hub.redirects = hub.etags = False
    hub.faults = deque([300_000])
    assert await fetched(tmp_path) == DATA
    assert [asked.range for asked in hub.to("hub")] == [None, None]


async def test_a_server_that_names_no_size_is_read_to_its_end(hub: HubServer, tmp_path: Path) -> None:
    hub.redirects = hub.lengths = False
    heard = Heard()
    assert await fetched(tmp_path, heard=heard) == DATA
    assert heard.total is None


async def test_a_part_that_is_too_long_begins_anew(hub: HubServer, tmp_path: Path) -> None:
    hub.faults = deque([300_000] + [0] * 9)
    await refusal(tmp_path)
    with (tmp_path / "tiny-q4_0.gguf.part").open("ab") as part:
        part.write(bytes(len(DATA)))
    hub.faults.clear()
    assert await fetched(tmp_path) == DATA


async def test_two_pulls_of_one_model_download_it_once(hub: HubServer, tmp_path: Path) -> None:
    hub.release = gate = Event()
    heard = [Heard(), Heard()]
    async with trio.open_nursery() as nursery:

        async def one(heard: Heard) -> None:
            assert (await ensure(SPEC, tmp_path, progress=heard)).read_bytes() == DATA

        class Second(Heard):
            def say(self, line: str) -> None:
                super().say(line)
                gate.set()

        heard[1] = Second()
        for each in heard:
            nursery.start_soon(one, each)
            await trio.testing.wait_all_tasks_blocked()
    assert len(hub.to("storage")) == 1
    assert heard[0].lines == []
    assert heard[1].lines == ["another process is working on tiny-q4_0.gguf: waiting for it"]


async def test_a_split_model_comes_with_all_its_parts(hub: HubServer, tmp_path: Path) -> None:
    hub.files = {f"o/Big/q4/Big-{part:05}-of-00003.gguf": gguf(1000, seed=part) for part in (1, 2, 3)}
    path = await ensure("hf:o/Big/q4/Big-00002-of-00003.gguf", tmp_path, pause=0)
    assert path.name == "Big-00001-of-00003.gguf"
    assert [(tmp_path / f"Big-{part:05}-of-00003.gguf").read_bytes() for part in (1, 2, 3)] == list(hub.files.values())
    assert await ensure("Big", tmp_path) == path


async def test_a_local_file_is_not_pulled(tmp_path: Path) -> None:
    (tmp_path / "mine.gguf").write_bytes(b"GGUF")
    assert await ensure("mine", tmp_path) == tmp_path / "mine.gguf"
    with pytest.raises(ModelError, match=r"cannot read the model .*other.gguf': No such file"):
        await pull(identify(str(tmp_path / "other.gguf"), tmp_path))


async def test_a_model_that_is_here_in_other_parts_is_taken_as_it_is(tmp_path: Path) -> None:
    for part in (1, 2):
        (tmp_path / f"qwen2.5-7b-{part:05}-of-00002.gguf").write_bytes(b"GGUF")
    assert await ensure("qwen2.5-7b", tmp_path) == tmp_path / "qwen2.5-7b-00001-of-00002.gguf"
