"""A hub on loopback: one server redirects like Hugging Face, one stores; both with the faults that tests ask for."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, field, frozen

from reame.errors import ModelError
from reame.pull import ensure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOKEN = "hf_a_secret_of_the_tests"
SPEC = "hf:owner/Tiny-GGUF/tiny-q4_0.gguf"
KEY = "owner/Tiny-GGUF/tiny-q4_0.gguf"


def gguf(size: int, seed: int = 1) -> bytes:
    """Bytes that begin like a GGUF file and do not repeat."""
    blocks = (hashlib.sha256(f"{seed}/{block}".encode()).digest() for block in range(size // 32 + 1))
    return (b"GGUF" + b"".join(blocks))[:size]


@frozen
class Asked:
    """One request that a server saw."""

    server: str
    path: str
    headers: dict[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@define
class HubServer:
    """`files` is repo/file -> bytes. `faults` are used up one a storage request: bytes to send before the line breaks.

    `answer` may answer a request of the hub by itself: (status, headers, body), or None for the usual redirect.
    `redirects` off is a mirror that serves the files itself. `release` holds every body at its half until it is set.
    """

    files: dict[str, bytes] = field(factory=dict)
    faults: deque[int] = field(factory=deque)
    answer: Callable[[Asked], tuple[int, dict[str, str], bytes] | None] = lambda asked: None
    redirects: bool = True
    etags: bool = True
    lengths: bool = True
    linked: dict[str, str] = field(factory=dict)
    release: threading.Event | None = None
    asked: list[Asked] = field(factory=list)
    _servers: dict[str, ThreadingHTTPServer] = field(factory=dict)

    @property
    def url(self) -> str:
        return self.origin("hub")

    def origin(self, name: str) -> str:
        return f"http://127.0.0.1:{self._servers[name].server_port}"

    def to(self, server: str) -> list[Asked]:
        return [asked for asked in self.asked if asked.server == server]

    def running(self) -> Iterator[HubServer]:
        for name in ("hub", "storage"):
            server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(name))
            server.daemon_threads = True
            self._servers[name] = server
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield self
        if self.release:
            self.release.set()
        for server in self._servers.values():
            server.shutdown()
            server.server_close()

    def _handler(self, name: str) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                headers = {key.lower(): value for key, value in self.headers.items()}
                asked = Asked(name, self.path, headers)
                hub.asked.append(asked)
                with suppress(ConnectionError):  # the client left
                    if name == "storage":
                        hub._serve(self, asked, self.path.partition("?")[0].lstrip("/"))
                    else:
                        hub._resolve(self, asked)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler

    def _resolve(self, handler: BaseHTTPRequestHandler, asked: Asked) -> None:
        key = asked.path.replace("/resolve/main/", "/").lstrip("/")
        scripted = self.answer(asked)
        if scripted is None and not self.redirects:
            self._serve(handler, asked, key)
            return
        if scripted is None and key in self.files:
            data = self.files[key]
            linked = {"X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Linked-Size": str(len(data))}
            location = {"Location": f"{self.origin('storage')}/{key}?signature=s3cret"}
            scripted = (302, linked | self.linked | location, b"")
        _reply(handler, *(scripted or (404, {"X-Error-Code": "EntryNotFound"}, b"")))

    def _serve(self, handler: BaseHTTPRequestHandler, asked: Asked, key: str) -> None:
        data = self.files[key]
        etag = f'"{hashlib.sha256(b"xet" + data).hexdigest()}"'  # like Xet's: in the form of a SHA-256, and not it
        headers = {"ETag": etag} if self.etags else {}
        start, condition = 0, asked.headers.get("if-range")
        status = 200
        if (match := re.fullmatch(r"bytes=(\d+)-", asked.range or "")) and condition in (None, etag):
            start, status = int(match[1]), 206
            if start >= len(data):
                _reply(handler, 416, {"Content-Range": f"bytes */{len(data)}"}, b"")
                return
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        if self.lengths:
            headers["Content-Length"] = str(len(data) - start)
        _head(handler, status, headers)
        body = data[start:]
        if self.faults:
            body = body[: self.faults.popleft()]
        if self.release:
            handler.wfile.write(body[: len(body) // 2])
            self.release.wait()
            body = body[len(body) // 2 :]
        handler.wfile.write(body)
        handler.close_connection = True


def _head(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str]) -> None:
    handler.send_response(status)
    for key, value in headers.items():
        handler.send_header(key, value)
    handler.end_headers()


def _reply(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], body: bytes) -> None:
    _head(handler, status, headers | {"Content-Length": str(len(body))})
    handler.wfile.write(body)


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
