"""Downloads from a hub: real sockets, real files, every fault that a network or a hub has shown in public."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import socket
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
from attrs import define, field
from hub_server import TOKEN, Asked, HubServer, gguf
from hypothesis import given, settings
from hypothesis import strategies as st

from reame import pull_http
from reame.catalog import identify, parse_hub
from reame.errors import ModelError
from reame.pull import ensure, pull
from reame.pull_file import Part
from reame.pull_hub import Hub, _redirected

if TYPE_CHECKING:
    from collections.abc import Iterator

SPEC = "hf:owner/Tiny-GGUF/tiny-q4_0.gguf"
KEY = "owner/Tiny-GGUF/tiny-q4_0.gguf"
DATA = gguf(700_001)


@define
class Heard:
    """Progress that remembers."""

    lines: list[str] = field(factory=list)
    done: int = 0
    total: int | None = None

    def begin(self, name: str, *, total: int | None, done: int) -> None:
        self.total, self.done = total, done

    def advance(self, count: int) -> None:
        self.done += count

    def say(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer(files={KEY: DATA})
    for running in server.running():
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


def visible(directory: Path) -> list[str]:
    """All names in the models directory but the locks."""
    return sorted(file.name for file in directory.iterdir() if not file.name.endswith(".lock"))


async def fetched(directory: Path, spec: str = SPEC, heard: Heard | None = None) -> bytes:
    path = await ensure(spec, directory, progress=heard, pause=0)
    assert visible(directory) == [path.name]
    return path.read_bytes()


async def refusal(directory: Path, spec: str = SPEC, heard: Heard | None = None) -> str:
    """The one line that a person reads when the pull fails; nothing is in place then."""
    with pytest.raises(ModelError) as caught:
        await ensure(spec, directory, progress=heard, pause=0)
    line = str(caught.value)
    assert "\n" not in line
    assert TOKEN not in line
    assert "s3cret" not in line
    assert visible(directory) in ([], ["tiny-q4_0.gguf.part", "tiny-q4_0.gguf.part.json"])
    return line


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


async def test_the_token_stays_with_the_hub(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
        return (307, {"Location": asked.path.replace("old", "owner")}, b"") if "old" in asked.path else None

    hub.answer = renamed
    monkeypatch.setenv("HF_TOKEN", f" {TOKEN}\n")
    assert await fetched(tmp_path, "hf:old/Tiny-GGUF/tiny-q4_0.gguf") == DATA
    assert [asked.headers.get("authorization") for asked in hub.to("hub")] == [f"Bearer {TOKEN}"] * 2
    assert "authorization" not in hub.to("storage")[0].headers


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


async def test_a_wrong_checksum_puts_nothing_in_place(hub: HubServer, tmp_path: Path) -> None:
    hub.linked = {"X-Linked-ETag": '"' + "0" * 64 + '"'}
    line = await refusal(tmp_path)
    assert hashlib.sha256(DATA).hexdigest()[:12] in line
    assert visible(tmp_path) == []


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


async def test_more_bytes_than_the_hub_says_are_refused(hub: HubServer, tmp_path: Path) -> None:
    hub.linked = {"X-Linked-Size": "1000"}
    assert "longer than the hub says" in await refusal(tmp_path)
    assert visible(tmp_path) == []


async def test_a_hub_that_contradicts_itself_is_not_asked_for_ever(hub: HubServer, tmp_path: Path) -> None:
    hub.linked = {"X-Linked-Size": str(len(DATA) + 1)}
    assert "run the same command again" in await refusal(tmp_path)
    assert len(hub.to("storage")) <= 2 * pull_http.MAX_TRIES


async def test_a_part_that_is_too_long_begins_anew(hub: HubServer, tmp_path: Path) -> None:
    hub.faults = deque([300_000] + [0] * 9)
    await refusal(tmp_path)
    with (tmp_path / "tiny-q4_0.gguf.part").open("ab") as part:
        part.write(bytes(len(DATA)))
    hub.faults.clear()
    assert await fetched(tmp_path) == DATA


@pytest.mark.parametrize(
    ("status", "code", "token", "words"),
    [
        (401, "GatedRepo", "", ["owner/Tiny-GGUF", "is gated", "accept its licence", "set HF_TOKEN"]),
        (403, "GatedRepo", TOKEN, ["is gated", "HF_TOKEN", "accept its licence"]),
        (401, "RepoNotFound", "", ["does not exist or is not public", "check the spelling", "HF_TOKEN"]),
        (401, "", TOKEN, ["refuses HF_TOKEN", "check the token"]),
        (404, "RepoNotFound", "", ["there is no owner/Tiny-GGUF on 127.0.0.1", "spelling"]),
        (404, "EntryNotFound", "", ["there is no file tiny-q4_0.gguf in owner/Tiny-GGUF", "spelling"]),
        (410, "", "", ["answered 410", "try later"]),
    ],
)
async def test_a_refusal_says_what_to_do(
    hub: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: int,
    code: str,
    token: str,
    words: list[str],
) -> None:
    hub.answer = lambda asked: (status, {"X-Error-Code": code}, b"<html>")
    monkeypatch.setenv("HF_TOKEN", token)
    line = await refusal(tmp_path)
    assert [word for word in words if word not in line] == []
    assert len(hub.asked) == 1
    assert visible(tmp_path) == []


async def test_a_busy_hub_is_asked_again(hub: HubServer, tmp_path: Path) -> None:
    answers = iter([(503, {"Retry-After": "0"}, b""), (429, {}, b""), None])
    hub.answer = lambda asked: next(answers)
    assert await fetched(tmp_path) == DATA


async def test_a_hub_that_stays_busy_is_left_alone(hub: HubServer, tmp_path: Path) -> None:
    hub.answer = lambda asked: (429, {}, b"")
    line = await refusal(tmp_path)
    assert "429: too many requests, wait or set HF_TOKEN" in line
    assert len(hub.asked) == pull_http.MAX_TRIES


async def test_an_expired_storage_link_is_asked_for_again(hub: HubServer, tmp_path: Path) -> None:
    answers = iter([(302, {"Location": f"{hub.origin('hub')}/x".replace("127.0.0.1", "localhost")}, b""), None, None])
    hub.answer = lambda asked: (403, {}, b"") if asked.path == "/x" else next(answers)
    assert await fetched(tmp_path) == DATA
    assert [asked.path == "/x" for asked in hub.to("hub")] == [False, True, False]


async def test_a_log_in_page_is_not_a_model(hub: HubServer, tmp_path: Path) -> None:
    hub.answer = lambda asked: (200, {"Content-Type": "text/html; charset=utf-8"}, b"<!DOCTYPE html>log in")
    line = await refusal(tmp_path)
    assert "sent a web page instead of tiny-q4_0.gguf: log in to this network" in line
    assert visible(tmp_path) == []


async def test_bytes_that_are_no_gguf_are_refused_at_once(hub: HubServer, tmp_path: Path) -> None:
    hub.files[KEY] = b"version https://git-lfs.github.com/spec/v1\n"
    assert "is not a GGUF file" in await refusal(tmp_path)
    assert visible(tmp_path) == []


async def test_the_disk_is_checked_before_the_first_byte(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    hub.linked = {"X-Linked-Size": "5000000000"}
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_230_000_000))
    line = await refusal(tmp_path)
    assert "5.07 GB needed, 1.23 GB free" in line
    assert "REAME_MODELS" in line
    assert visible(tmp_path) == []


async def test_a_disk_that_fills_up_meanwhile_is_named(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(part: Part, data: bytes) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Part, "write", full)
    line = await refusal(tmp_path)
    assert line.startswith(f"the disk of {tmp_path} is full: free some space")


async def test_a_models_directory_that_cannot_be_is_named(hub: HubServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelError, match=r"cannot write in .*file/models \(Not a directory\): set REAME_MODELS"):
        await ensure(SPEC, tmp_path / "file" / "models")


async def test_offline_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, and nobody listens
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{closed.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "*")
        heard = Heard()
        line = await refusal(tmp_path, heard=heard)
    assert heard.lines == []
    assert line.startswith("cannot reach 127.0.0.1 (")
    assert "check the network" in line
    assert "`reame list`" in line


async def test_redirects_without_end_and_to_plain_http(hub: HubServer, tmp_path: Path) -> None:
    hub.answer = lambda asked: (302, {"Location": asked.path}, b"")
    assert "redirects without end" in await refusal(tmp_path)
    with pytest.raises(ModelError, match="not https"):
        _redirected(httpx2.URL("https://hub.example/x"), "http://storage.example/y")
    with pytest.raises(ModelError, match="not https"):
        _redirected(httpx2.URL("http://hub.example/x"), "file:///etc/passwd")


@pytest.mark.parametrize("endpoint", ["huggingface.co", "ftp://x", "https://", "http://[::1", "/mirror"])
def test_an_endpoint_that_is_no_url(endpoint: str) -> None:
    with pytest.raises(ModelError, match="HF_ENDPOINT is not a URL"):
        Hub.from_environ({"HF_ENDPOINT": endpoint})


def test_an_endpoint_may_have_a_path_and_a_slash() -> None:
    hub = Hub.from_environ({"HF_ENDPOINT": "https://mirror.example/hf/", "HF_TOKEN": TOKEN})
    assert str(hub.url(parse_hub(SPEC))) == "https://mirror.example/hf/owner/Tiny-GGUF/resolve/main/tiny-q4_0.gguf"
    assert TOKEN not in repr(hub)
    assert hub.owns(httpx2.URL("https://mirror.example:443/x"))
    assert not hub.owns(httpx2.URL("https://mirror.example:8443/x"))
    assert not hub.owns(httpx2.URL("http://mirror.example/x"))


def test_a_token_that_cannot_be_is_not_shown() -> None:
    with pytest.raises(ModelError, match="HF_TOKEN holds a space") as caught:
        Hub.from_environ({"HF_TOKEN": "hf_one\nhf_two"})
    assert "hf_" not in str(caught.value)


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
    with pytest.raises(ModelError, match="nothing to pull"):
        await pull(identify("mine", tmp_path))
