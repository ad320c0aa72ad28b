"""`POST /v1/warm`: from the body's bytes to what is to be computed ahead of time. Pure.

The prompt is that of a completion or of a chat, read and checked as there: who is going to ask can warm with the very
body that will be sent. What would only shape an answer is checked too, and has no effect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.api.schema_fields import Fields, parse_object
from reame.core.request import Call

if TYPE_CHECKING:
    from reame.api.schema import Limits

LONGEST_S = 10 * 365 * 86_400.0
"""Seconds: ten years stand for ever."""


@frozen(kw_only=True)
class WarmWanted:
    """A body of `/v1/warm`, checked. `model` "" means any. `pin_s`: for how long it is pinned, in seconds."""

    call: Call
    model: str = ""
    stream: bool = False
    pin_s: float | None = None


def read_warm(raw: bytes, limits: Limits) -> WarmWanted:
    """Raises RequestError (400) with the field at fault."""
    fields = Fields(parse_object(raw))
    is_chat = fields.get("messages") is not None
    if is_chat and fields.get("prompt") is not None:
        raise fields.fault("messages", "and prompt are both there: send one of them.")
    if not is_chat and fields.get("prompt") is None:
        raise fields.fault("prompt", "or messages is required.")
    pin_s = _read_pin(fields)
    wanted = read_chat(raw, limits) if is_chat else read_completion(raw, limits)
    return WarmWanted(
        call=Call(prompts=wanted.call.prompts, warm=True), model=wanted.model, stream=wanted.stream, pin_s=pin_s
    )


def _read_pin(fields: Fields) -> float | None:
    ttl_s = fields.number("ttl_s", 0, LONGEST_S, above=True)
    if fields.flag("pin"):
        return ttl_s or LONGEST_S
    if ttl_s is not None:
        raise fields.fault("ttl_s", "needs pin to be true.")
    return None
