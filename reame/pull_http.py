"""Download one file of a hub into a part, going on where an earlier try or process stopped."""

from __future__ import annotations

import re
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import httpx2
import trio
from attrs import define

from reame.errors import ModelError
from reame.pull_file import Identity, Part, Progress, bytes_text, check_room
from reame.pull_hub import Answer, Hub, client, number, refusal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from reame.catalog_types import HubFile

MAX_TRIES = 5  # in a row that get no further
MAX_PAUSE = 30  # seconds that a server may ask us to wait
CHUNK_BYTES = 1 << 18

_RETRIED = {408, 429, 500, 502, 503, 504}


class _Interrupted(Exception):
    """This try failed and another may not; `pause` is how many seconds the server asked us to wait."""

    def __init__(self, why: str, *, pause: float = 0.0) -> None:
        super().__init__(why)
        self.pause = pause


@define
class Download:
    """One file on its way into a part. `pause` is the first wait between tries in seconds; it doubles."""

    source: HubFile
    hub: Hub
    part: Part
    progress: Progress
    pause: float = 1.0
    _reached: bool = False
    _refused: bool = False
    """The storage would not give the last try anything."""

    async def run(self) -> None:
        """Bring the file in and put it in place. ModelError says in one line why not and what to do."""
        await self._fetch()
        checksum = self.part.identity.sha256 if self.part.identity else None
        if checksum is None:
            self.progress.say(f"{self.part.target.name}: the server names no checksum, only the size was checked")
        await trio.to_thread.run_sync(self.part.commit, checksum)

    async def _fetch(self) -> None:
        """Try until all bytes are here, giving up after MAX_TRIES in a row that got no further than any before."""
        tries, most = 0, self.part.size
        async with client() as session:
            while not self._whole():
                try:
                    await self._try(session)
                except (_Interrupted, httpx2.TransportError) as why:
                    tries = 1 if self.part.size > most else tries + 1
                    most = max(most, self.part.size)
                    await self._wait(why, tries)

    def _whole(self) -> bool:
        return self.part.identity is not None and self.part.size == self.part.identity.size

    async def _wait(self, why: Exception, tries: int) -> None:
        if not self._reached or tries >= MAX_TRIES:
            raise self._failure(why) from None
        self.progress.say(f"{self.part.target.name}: {_reason(why)}; trying again from {bytes_text(self.part.size)}")
        await trio.sleep(max(self.pause * 2 ** (tries - 1), getattr(why, "pause", 0.0)))

    def _failure(self, why: Exception) -> ModelError:
        if not self._reached:
            host = why.request.url.host if isinstance(why, httpx2.RequestError) else self.hub.endpoint.host
            return ModelError(
                f"cannot reach {host} ({_reason(why)}): check the network, the proxy (HTTPS_PROXY) or HF_ENDPOINT; "
                "models that are here need no network (`reame list`)"
            )
        return ModelError(
            f"{self.part.target.name} stopped at {bytes_text(self.part.size)} ({_reason(why)}): "
            "run the same command again, it goes on from there"
        )

    async def _try(self, session: httpx2.AsyncClient) -> None:
        """One request and its body. However it ends, `part` holds what arrived."""
        answer = await self.hub.open(session, self.source, self._resume_headers())
        self._reached = True
        try:
            self._check_status(answer)
            await self._settle(answer)
            await self._receive(answer.response)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await answer.response.aclose()

    def _resume_headers(self) -> dict[str, str]:
        """Ask for the rest when a part is here, on condition that the file is still the one it is a part of."""
        known = self.part.identity
        if known is None or not self.part.size or not (known.etag or known.sha256):
            return {}
        return {"Range": f"bytes={self.part.size}-"} | ({"If-Range": known.etag} if known.etag else {})

    def _check_status(self, answer: Answer) -> None:
        """Pass 200, 206 and 416; raise _Interrupted for what may pass by itself, ModelError for the rest."""
        status = answer.response.status_code
        if status in (200, 206, 416):
            self._refused = False
            return
        is_hub = self.hub.speaks(answer.url, self.source)
        if status in _RETRIED or not (is_hub or self._refused):  # storage links expire: ask the hub for a new one, once
            self._refused = status not in _RETRIED
            pause = min(number(answer.response.headers.get("retry-after")) or 0, MAX_PAUSE)
            limit = ": too many requests, wait or set HF_TOKEN" if status == 429 else ""
            raise _Interrupted(f"{answer.url.host} answered {status}{limit}", pause=pause)
        if is_hub:
            raise refusal(answer, self.source, self.hub)
        raise ModelError(
            f"{answer.url.host} answered {status} for {self.source}, with a fresh link too: the storage does not give "
            "it to this network now; try later, or set HF_ENDPOINT to a mirror"
        )

    async def _settle(self, answer: Answer) -> None:
        """Decide whether the body continues the part or begins it anew; check its kind and the room on the disk."""
        response, part = answer.response, self.part
        identity, start = _described(answer)
        if response.status_code == 200:
            self._refuse_page(response)
            if part.size:
                self.progress.say(f"{part.target.name}: the server sends it from the beginning again")
            await trio.to_thread.run_sync(part.restart, identity)
        elif start != part.size or part.identity is None or not part.identity.same_file(identity):
            await trio.to_thread.run_sync(part.restart, identity)
            raise _Interrupted("the bytes that are here do not fit the file on the server")
        if identity.size is not None:
            check_room(part.target.parent, identity.size - part.size, part.target.name)
        self.progress.begin(part.target.name, total=identity.size, done=part.size)

    def _refuse_page(self, response: httpx2.Response) -> None:
        if response.headers.get("content-type", "").startswith("text/html"):
            raise ModelError(
                f"{response.url.host} sent a web page instead of {self.source.file}: log in to this network "
                "(hotel, office) in a browser or correct HF_ENDPOINT, then run the same command again"
            )

    async def _receive(self, response: httpx2.Response) -> None:
        pending = bytearray()
        try:
            async with _body(response) as chunks:
                async for chunk in chunks:
                    pending += chunk
                    if len(pending) >= CHUNK_BYTES:
                        await self._store(pending)
        finally:
            await self._store(pending)
        self._check_length()

    async def _store(self, pending: bytearray) -> None:
        data = bytes(pending)
        pending.clear()
        if not self.part.size and not b"GGUF".startswith(data[:4]):
            raise ModelError(f"{self.source.file} of {self.source.repo} is not a GGUF file: choose another file")
        if data:
            await trio.to_thread.run_sync(self.part.write, data)
            self.progress.advance(len(data))

    def _check_length(self) -> None:
        part = self.part
        size = part.identity.size if part.identity else None
        if size is None:  # a server that names no size: the end of its body is the only end there is
            size = part.size
            part.identity = Identity(size=size, sha256=part.identity.sha256 if part.identity else None)
        if part.size < size:
            raise _Interrupted("the connection ended early")
        if part.size > size:
            part.discard()
            raise ModelError(f"{part.target.name} came longer than the hub says and was deleted: check HF_ENDPOINT")


@asynccontextmanager
async def _body(response: httpx2.Response) -> AsyncIterator[AsyncIterator[bytes]]:
    """The body's bytes as they come. Left early, it closes the response and then runs the iterator to its end, for
    httpx2 does not close its innermost generator itself."""
    chunks = response.aiter_raw()
    try:
        yield chunks
    finally:
        await response.aclose()
        with suppress(httpx2.TransportError, httpx2.StreamError):
            async for _ in chunks:
                pass


def _described(answer: Answer) -> tuple[Identity, int]:
    """What file the answer is of, and the offset of the body's first byte in it (-1: not said)."""
    response = answer.response
    etag = response.headers.get("etag", "")
    if response.status_code == 200:
        start, total = 0, number(response.headers.get("content-length"))
    else:
        match = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", response.headers.get("content-range", ""))
        start, total = (int(match[1] or -1), number(match[2])) if match else (-1, None)
    return Identity(answer.size or total, etag if etag.startswith('"') else None, answer.sha256), start


def _reason(why: Exception) -> str:
    if isinstance(why, httpx2.TimeoutException):
        return "no answer in time"
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(why))
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted; behind an inspecting proxy set SSL_CERT_FILE"
    return text or type(why).__name__
