"""Files that are uploaded: what is no such form, and a disk that takes nothing."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from attrs import field, frozen

from reame.api.upload import Upload, receive
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FORM = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f.jsonl"\r\n\r\n{}\r\n--b--\r\n'


@frozen
class Posted:
    """What is looked at of a request."""

    data: bytes = FORM
    boundary: str = "b"
    mimetype: str = "multipart/form-data"
    mimetype_params: dict[str, str] = field()

    @mimetype_params.default
    def _params(self) -> dict[str, str]:
        return {"boundary": self.boundary}

    @property
    async def body(self) -> AsyncIterator[bytes]:
        yield self.data


async def received(posted: Any, path: Path) -> Upload:
    return await receive(posted, path, most=100)


def is_gone(path: Path) -> bool:
    return not os.path.lexists(path)


async def refused(posted: Posted, path: Path) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await received(posted, path)
    assert is_gone(path)
    return caught.value


async def test_a_file_is_on_the_disk(tmp_path: Path) -> None:
    upload = await received(Posted(), tmp_path / "f")
    assert (upload.filename, (tmp_path / "f").read_bytes()) == ("f.jsonl", b"{}")


async def test_what_is_no_form_is_refused(tmp_path: Path) -> None:
    assert (await refused(Posted(mimetype="text/plain"), tmp_path / "f")).status == 415
    assert (await refused(Posted(b"hello"), tmp_path / "f")).status == 400
    assert (await refused(Posted(boundary="\N{EURO SIGN}"), tmp_path / "f")).status == 400


async def test_a_disk_that_takes_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "full").symlink_to("/dev/full")
    for path in (tmp_path / "full", tmp_path / "nowhere" / "f"):
        error = await refused(Posted(), path)
        assert (error.status, error.code) == (500, "disk_error")
