"""A file that is uploaded as `multipart/form-data`, to the disk as it comes. Bounds: the file's size, 4 KiB for each of
the few other fields, and in memory what the network is ahead of the disk."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import trio
from attrs import define, field
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.sansio.multipart import Data, Epilogue, Event, Field, File, MultipartDecoder, NeedData

from reame.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from quart.wrappers import Request

MOST_PARTS = 16
MOST_FIELD = 4096
STALL_S = 60.0
"""Seconds in which some of the body has to come."""
MOST_NAME = 255


@define
class Upload:
    """What has come so far: the fields by their names, and the name of the file, "" before it came."""

    path: Path
    most: int
    fields: dict[str, str] = field(factory=dict)
    filename: str = ""
    size: int = 0
    _part: Field | File | None = None
    _text: bytearray = field(factory=bytearray)

    def take(self, event: Event, file: BinaryIO) -> None:
        """Raises RequestError when there is too much of it."""
        if isinstance(event, Field | File):
            self._begin(event)
        elif isinstance(event, Data) and isinstance(self._part, File):
            self.size += len(event.data)
            if self.size > self.most:
                raise RequestError(
                    f"the file is larger than {self.most >> 20} MiB (batch.file_mb): split it", status=413, param="file"
                )
            file.write(event.data)
        elif isinstance(event, Data) and self._part is not None:
            self._text += event.data
            if len(self._text) > MOST_FIELD:
                raise RequestError(f"a field is longer than {MOST_FIELD} bytes", param=str(self._part.name)[:40])
            if not event.more_data:
                self.fields[self._part.name] = self._text.decode("utf-8", "replace")

    def _begin(self, part: Field | File) -> None:
        if isinstance(part, File):
            if self.filename or part.name != "file":
                raise RequestError("send one file, in the field `file`", param="file")
            self.filename = (part.filename or "input.jsonl")[:MOST_NAME]
        self._part = part
        self._text.clear()


async def receive(request: Request, path: Path, *, most: int) -> Upload:
    """Write the file in the request's body to `path`. Raises RequestError for a body that is no such form; then, and
    when it is cancelled, nothing stays at `path`."""
    boundary = request.mimetype_params.get("boundary", "")
    if request.mimetype != "multipart/form-data" or not boundary:
        raise RequestError("Send the file as `multipart/form-data`, in the field `file`.", status=415)
    upload = Upload(path, most)
    with ExitStack() as undo:
        undo.callback(partial(_discard, path))
        try:
            with path.open("wb") as file:
                decoder = MultipartDecoder(boundary.encode("latin-1"), max_parts=MOST_PARTS)
                await _read(request, decoder, upload, file)
        except RequestEntityTooLarge:
            raise RequestError("the form has too many parts, or is too large", status=413) from None
        except ValueError:
            raise RequestError("the body is not the form that its header says") from None
        except OSError:  # also when the file is closed, and its last bytes are written
            raise RequestError("the server's disk takes no more", status=500, code="disk_error") from None
        if not upload.filename:
            raise RequestError("is missing: send one file in the field `file`", param="file")
        undo.pop_all()
    return upload


def _discard(path: Path) -> None:
    with suppress(OSError):  # a disk that takes nothing
        path.unlink(missing_ok=True)


async def _read(request: Request, decoder: MultipartDecoder, upload: Upload, file: BinaryIO) -> None:
    chunks = aiter(request.body)
    while True:
        chunk: bytes | None = None
        with trio.move_on_after(STALL_S) as patience:
            chunk = await anext(chunks, None)
        if patience.cancelled_caught:
            raise RequestError("the body took too long to arrive", status=408)
        decoder.receive_data(chunk)
        if await trio.to_thread.run_sync(_parse, decoder, upload, file) or chunk is None:
            return


def _parse(decoder: MultipartDecoder, upload: Upload, file: BinaryIO) -> bool:
    """Whether the form is over."""
    while True:
        event = decoder.next_event()
        if isinstance(event, NeedData):
            return False
        if isinstance(event, Epilogue):
            return True
        upload.take(event, file)
