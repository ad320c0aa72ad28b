"""Hubs and networks that refuse, lie or are not there: each ends in one line that says what to do."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
from typing import TYPE_CHECKING

import httpx2
import pytest
from hub_server import KEY, SPEC, TOKEN, Asked, Heard, HubServer, fetched, gguf, refusal, visible

from reame import pull_http
from reame.catalog import parse_hub
from reame.errors import ModelError
from reame.pull import ensure
from reame.pull_file import Part
from reame.pull_hub import Hub, _redirected

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = gguf(700_001)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer(files={KEY: DATA})
    for running in server.running():
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


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


async def test_the_token_stays_with_the_hub(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def renamed(asked: Asked) -> tuple[int, dict[str, str], bytes] | None:
        return (307, {"Location": asked.path.replace("old", "owner")}, b"") if "old" in asked.path else None

    hub.answer = renamed
    monkeypatch.setenv("HF_TOKEN", f" {TOKEN}\n")
    assert await fetched(tmp_path, "hf:old/Tiny-GGUF/tiny-q4_0.gguf") == DATA
    assert [asked.headers.get("authorization") for asked in hub.to("hub")] == [f"Bearer {TOKEN}"] * 2
    assert "authorization" not in hub.to("storage")[0].headers


async def test_a_wrong_checksum_puts_nothing_in_place(hub: HubServer, tmp_path: Path) -> None:
    hub.linked = {"X-Linked-ETag": '"' + "0" * 64 + '"'}
    line = await refusal(tmp_path)
    assert hashlib.sha256(DATA).hexdigest()[:12] in line
    assert visible(tmp_path) == []


async def test_more_bytes_than_the_hub_says_are_refused(hub: HubServer, tmp_path: Path) -> None:
    hub.linked = {"X-Linked-Size": "1000"}
    assert "longer than the hub says" in await refusal(tmp_path)
    assert visible(tmp_path) == []


async def test_a_hub_that_contradicts_itself_is_not_asked_for_ever(hub: HubServer, tmp_path: Path) -> None:
    hub.linked = {"X-Linked-Size": str(len(DATA) + 1)}
    assert "run the same command again" in await refusal(tmp_path)
    assert len(hub.to("storage")) <= 2 * pull_http.MAX_TRIES
