"""`reame warm` and the other side: keys, what is wrong with whoever answers, where the daemon is, and proxies."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
import trio
from scripted import serving
from warming import WarmingIntake, computed

from reame.commands.warm import warm
from reame.commands.warm_work import url_of
from reame.config import ServerConfig
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path



@pytest.fixture
def intake() -> WarmingIntake:
    return WarmingIntake(lambda _: computed(1, 3, 4))


@asynccontextmanager
async def canned(
    status: str, body: bytes, seen: list[str] | None = None, *, length: int = -1, host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Something else that listens: one answer to everything, perhaps cut short; `seen` gets the requests."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body) if length < 0 else length}\r\nConnection: close\r\n\r\n"

    async def serve(stream: trio.SocketStream) -> None:
        got = b""
        while b'"stream"' not in got:
            got += await stream.receive_some()
        if seen is not None:
            seen.append(got.decode())
        await stream.send_all(head.encode() + body)
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await nursery.start(partial(trio.serve_tcp, serve, 0, host=host))
        yield f"http://{host}:{listener.socket.getsockname()[1]}"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("line", "shown_key"), [("sk-one", "sk-one"), ("# mine\n\nann:sk-two\nbob:x", "sk-two")])
async def test_the_key_is_shown(note: Path, tmp_path: Path, line: str, shown_key: str) -> None:
    file = tmp_path / "key"
    file.write_text(line)
    seen: list[str] = []
    async with canned("401 Unauthorized", b"{}", seen) as url:
        with pytest.raises(ConfigError, match=f"does not know the key in {file}"):
            await warm(note, url=url, key_file=file)
        with pytest.raises(ConfigError, match="wants an API key: give it with --key-file"):
            await warm(note, url=url)
    assert f"Authorization: Bearer {shown_key}\r\n" in seen[0]
    assert "Authorization" not in seen[1]

PROGRESS = b'data: {"object":"warm.progress","computed_tokens":1,"prompt_tokens":5}\n\n'


@pytest.mark.parametrize(
    ("status", "body", "length", "said"),
    [
        ("404 Not Found", b'{"error":{"message":"nothing here","code":"not_found"}}', -1, "has no /v1/warm: update"),
        ("404 Not Found", b"<html>", -1, "has no /v1/warm: update"),
        ("405 Method Not Allowed", b"", -1, "has no /v1/warm: update"),
        ("301 Moved", b"", -1, "answered with status 301"),
        ("503 Service Unavailable", b'{"error":{"message":"stopping","code":"server_draining"}}', -1, "stopping"),
        ("200 OK", b"hello", -1, "does not answer as a Reame daemon"),
        ("200 OK", b"data: {nonsense\n\ndata: [DONE]\n\n", -1, "does not answer as a Reame daemon"),
        ("200 OK", PROGRESS, -1, "does not answer as a Reame daemon"),
        ("200 OK", PROGRESS, 1000, "broke off in the middle"),
        ("200 OK", b'event: error\ndata: {"error":{"message":"it ends","code":"server_stopping"}}\n\n', -1, "it ends"),
    ],
)
async def test_what_is_wrong_with_the_other_side_is_said_once(
    note: Path, tmp_path: Path, status: str, body: bytes, length: int, said: str
) -> None:
    other = tmp_path / "other"
    other.write_text("x")
    seen: list[str] = []
    async with canned(status, body, seen, length=length) as url:
        with pytest.raises(ConfigError, match=said) as raised:
            await warm(note, other, url=url)
        assert len(seen) == 1
        assert url in str(raised.value)
        assert "\n" not in str(raised.value)


async def test_nobody_there(note: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing answers at .*: start the daemon with `reame serve`"):
        await warm(note, url="http://127.0.0.1:1")


async def test_the_daemon_is_where_its_config_says(intake: WarmingIntake, note: Path, tmp_path: Path) -> None:
    file = tmp_path / "reame.toml"
    async with serving(intake) as served:
        file.write_text(f"[server]\nport = {served.url.rpartition(':')[2]}\n")
        assert await warm(note, config=file) == 0
        assert await warm(note, config=file, sets=("server.host=0.0.0.0", "server.api_keys_file=keys")) == 0
        assert len(intake.opened) == 2
        with pytest.raises(ConfigError, match=r"nothing answers at http://127\.0\.0\.1:1:"):
            await warm(note, config=file, sets=("server.port=1",))
        with pytest.raises(ConfigError, match=r"nothing answers at http://127\.0\.0\.1:1:"):
            await warm(note, config=file, url="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8301"),
        ("localhost", "http://localhost:8301"),
        ("::1", "http://[::1]:8301"),
        ("0.0.0.0", "http://127.0.0.1:8301"),
        ("::", "http://[::1]:8301"),
    ],
)
def test_where_a_daemon_is_found_from_its_own_machine(host: str, url: str) -> None:
    assert url_of(ServerConfig(host=host, port=8301)) == url


async def test_a_proxy_is_not_asked_for_a_daemon_on_this_machine(
    intake: WarmingIntake, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with serving(intake) as served:
        assert await warm(note, url=served.url) == 0
    async with canned("404 Not Found", b"", host="127.0.0.2") as url:  # as with an address in its network
        sets = ("server.host=127.0.0.2", f"server.port={url.rpartition(':')[2]}")
        with pytest.raises(ConfigError, match="has no /v1/warm"):
            await warm(note, sets=sets)
