"""One line of a batch's input: OpenAI's `custom_id`, `method`, `url`, `body`. Pure.

Every line is either a `Record` to be computed or a `Fault` that says what is wrong with it. Both have an `id` that says
what was asked, so that a run that goes on later knows what is done: that of a record holds for its `custom_id`, `url`
and `body` wherever the line stands; that of a fault for the line's text and its place.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from zlib import crc32

from attrs import frozen

from reame.api.schema_fields import Fields, kind, parse_object
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
MAX_LINE = 16 << 20
"""Bytes of a line; as many as `server.max_body_mb` lets in by default."""
MAX_ID = 512
BOM = b"\xef\xbb\xbf"

PIECE = 32
"""Bytes of a prompt that stand as one number in its place in the tree: about eight tokens."""
_DEEPEST = 1 << 16
"""Bytes of a prompt that decide its place."""
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_TOLD_APART = ("user", "metadata", "store")
"""Fields that change nothing about an answer."""


@frozen(kw_only=True, eq=False)
class Record:
    """A request."""

    number: int
    id: str
    custom_id: str
    url: str
    body: Mapping[str, Any]


@frozen(kw_only=True)
class Fault:
    """A line that asks for nothing that can be done. `custom_id` None: it names none."""

    number: int
    id: str
    custom_id: str | None
    error: RequestError


def read_line(raw: bytes, number: int, *, by_name: bool = False) -> Record | Fault:
    """`raw` without its line end; a byte order mark in front and a carriage return behind are no fault. `by_name`: the
    `custom_id` alone says what is asked."""
    raw = raw.removeprefix(BOM).rstrip(b"\r\n")
    custom_id: str | None = None
    try:
        if not raw.strip():
            raise RequestError("the line is blank", code="blank_line")
        if len(raw) > MAX_LINE:
            raise RequestError(f"the line is longer than {MAX_LINE >> 20} MiB", status=413, code="line_too_long")
        fields = Fields(_object(raw))
        custom_id = _custom_id(fields)
        url = _url(fields)
        body = _body(fields)
    except RequestError as error:
        return fault(raw, number, error, custom_id)
    whole = canonical({"custom_id": custom_id, **({} if by_name else {"url": url, "body": body})})
    return Record(number=number, id=_id(whole), custom_id=custom_id, url=url, body=body)


def fault(raw: bytes, number: int, error: RequestError, custom_id: str | None) -> Fault:
    """What is wrong with line `number`; the message names the line."""
    code = error.code or "invalid_line"
    told = RequestError(f"line {number}: {error.message}", status=error.status, param=error.param, code=code)
    return Fault(number=number, id=_id(b"%d " % number + raw[:MAX_LINE]), custom_id=custom_id, error=told)


def same_as(url: str, body: Mapping[str, Any]) -> bytes | None:
    """Equal for records with one answer; None: this one is drawn anew, or an answer given before will not do."""
    own = body.get("reame")
    anew = isinstance(own, dict) and own.get("answers") is False
    if anew or (body.get("seed") is None and body.get("temperature") != 0):
        return None
    meant = {name: value for name, value in body.items() if name not in _TOLD_APART and value is not None}
    return blake2b(canonical([url, meant]), digest_size=16).digest()


def place_of(url: str, body: Mapping[str, Any]) -> bytes:
    """Sorted by these, prompts stand along their tree: those that begin alike are neighbours, to a piece's length.

    Each piece of the prompt is a number of four bytes; two pieces with one number only cost a better neighbour.
    """
    prompt = canonical([url, body.get("tools"), body.get("messages", body.get("prompt"))])[:_DEEPEST]
    pieces = (prompt[start : start + PIECE] for start in range(0, len(prompt), PIECE))
    return b"".join(crc32(piece).to_bytes(4) for piece in pieces)


def canonical(value: Any) -> bytes:
    """The order of keys stays: that of a schema's properties is the order of an answer."""
    return _ENCODER.encode(value).encode()


def _id(data: bytes) -> str:
    return f"batch_req_{blake2b(data, digest_size=12).hexdigest()}"


def _object(raw: bytes) -> dict[str, Any]:
    try:
        return parse_object(raw)
    except RequestError as error:
        message = error.message.replace("The body", "the line").replace(" (line 1, column", " (column")
        raise RequestError(message.removesuffix("."), code="invalid_line") from None


def _custom_id(fields: Fields) -> str:
    value = fields.text("custom_id")
    if not value:
        raise fields.fault("custom_id", "is required: a text that no other line has", code="invalid_line")
    if len(value) > MAX_ID:
        raise fields.fault("custom_id", f"has more than {MAX_ID} characters", code="invalid_line")
    return value


def _url(fields: Fields) -> str:
    method = fields.text("method")
    if method is not None and method.upper() != "POST":
        raise fields.fault("method", "must be POST", code="invalid_method")
    value = fields.text("url")
    if value is None:
        raise fields.fault("url", f"is required: {CHAT} or {COMPLETION}", code="invalid_url")
    path = "/v1/" + value.strip("/").removeprefix("v1/")
    if path not in (CHAT, COMPLETION):
        raise fields.fault("url", f"must be {CHAT} or {COMPLETION}", code="invalid_url")
    return path


def _body(fields: Fields) -> dict[str, Any]:
    value = fields.get("body")
    if not isinstance(value, dict):
        raise fields.fault("body", f"must be an object, not {kind(value)}", code="invalid_line")
    if value.get("stream"):
        message = "body.stream has no place in a batch: leave it out"
        raise RequestError(message, param="body.stream", code="invalid_line")
    return value
