"""Endpoints that redirect to another hub: its words about the file count, and its refusals are no storage's."""

from __future__ import annotations

import hashlib
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hub_server import KEY, SPEC, TOKEN, Asked, Heard, HubServer, fetched, gguf, refusal, visible

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DATA = gguf(700_001)
Reply = tuple[int, dict[str, str], bytes]


def moved(hub: HubServer, asked: Asked) -> Reply | None:
    """`localhost` redirects everything to 127.0.0.1, which is another origin: the hub."""
    if asked.headers["host"].startswith("localhost"):
        return 308, {"Location": hub.url + asked.path}, b""
    return None


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    server = HubServer(files={KEY: DATA})
    for running in server.running():
        server.answer = partial(moved, server)
        monkeypatch.setenv("HF_ENDPOINT", server.url.replace("127.0.0.1", "localhost"))
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


async def test_the_checksum_is_taken_behind_a_redirect(hub: HubServer, tmp_path: Path) -> None:
    heard = Heard()
    assert await fetched(tmp_path / "right", heard=heard) == DATA
    assert heard.lines == []  # not "the server names no checksum"
    hub.linked = {"X-Linked-ETag": '"' + "0" * 64 + '"'}
    assert "arrived damaged" in await refusal(tmp_path / "wrong")


async def test_the_checksum_is_taken_behind_a_redirect_and_a_new_name(hub: HubServer, tmp_path: Path) -> None:
    def renamed(asked: Asked) -> Reply | None:
        old = (307, {"Location": asked.path.replace("old", "owner")}, b"") if "old" in asked.path else None
        return moved(hub, asked) or old

    hub.answer = renamed
    heard = Heard()
    assert await fetched(tmp_path, "hf:old/Tiny-GGUF/tiny-q4_0.gguf", heard) == DATA
    assert heard.lines == []


async def test_nobody_contradicts_the_endpoint(hub: HubServer, tmp_path: Path) -> None:
    right = {"X-Linked-ETag": f'"{hashlib.sha256(DATA).hexdigest()}"', "X-Linked-Size": str(len(DATA))}

    def told(asked: Asked) -> Reply | None:
        found = moved(hub, asked)
        return (found[0], found[1] | right, b"") if found else None

    hub.answer = told
    hub.linked = {"X-Linked-ETag": '"' + "0" * 64 + '"', "X-Linked-Size": "5"}
    assert await fetched(tmp_path) == DATA


@pytest.mark.parametrize(
    ("status", "code", "token", "words"),
    [
        (401, "GatedRepo", "", ["owner/Tiny-GGUF on 127.0.0.1 is gated", "set HF_TOKEN"]),
        (401, "RepoNotFound", "", ["does not exist or is not public"]),
        (401, "GatedRepo", TOKEN, ["not shown to whom localhost redirects to", "set HF_ENDPOINT to http://127.0.0.1"]),
        (403, "", "", ["does not exist or is not public"]),
        (404, "EntryNotFound", "", ["there is no file tiny-q4_0.gguf in owner/Tiny-GGUF on 127.0.0.1"]),
    ],
)
async def test_a_refusal_behind_a_redirect_is_the_hubs(
    hub: HubServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    status: int,
    code: str,
    token: str,
    words: list[str],
) -> None:
    hub.answer = lambda asked: moved(hub, asked) or (status, {"X-Error-Code": code}, b"<html>")
    monkeypatch.setenv("HF_TOKEN", token)
    line = await refusal(tmp_path)
    assert [word for word in words if word not in line] == []
    assert len(hub.asked) == 2
    assert visible(tmp_path) == []


async def test_the_token_stays_with_the_endpoint(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert await fetched(tmp_path) == DATA
    assert [asked.headers.get("authorization") for asked in hub.asked] == [f"Bearer {TOKEN}", None, None]


@pytest.mark.parametrize("status", [403, 404])
async def test_a_storage_that_refuses_a_fresh_link_too_is_given_up(hub: HubServer, tmp_path: Path, status: int) -> None:
    def elsewhere(asked: Asked) -> Reply:
        if asked.path == "/x":
            return status, {}, b""
        return 302, {"Location": hub.url + "/x"}, b""

    hub.answer = elsewhere
    line = await refusal(tmp_path, SPEC)
    assert line.startswith(f"127.0.0.1 answered {status} for {SPEC}, with a fresh link too")
    assert "goes on" not in line
    assert [asked.path == "/x" for asked in hub.asked] == [False, True, False, True]
