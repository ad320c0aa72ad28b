"""`POST /v1/chat/completions`: from the body's bytes to what is wanted. Pure.

A conversation whose last message is the assistant's is continued: the answer goes on where that message ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reame.api import schema
from reame.api.schema import Limits, Wanted
from reame.api.schema_messages import read_messages
from reame.core.request import Call, Chat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.api.schema_fields import Fields

MAX_TOP_LOGPROBS = 20


def read_chat(raw: bytes, limits: Limits) -> Wanted:
    """Raises RequestError (400) with the field at fault."""
    fields = schema.read_fields(raw)
    messages = read_messages(fields)
    _refuse_unsupported(fields)
    stream, include_usage = schema.read_stream(fields)
    return Wanted(
        call=Call(
            prompts=(Chat(messages=messages, continue_last=messages[-1]["role"] == "assistant"),),
            n=schema.read_n(fields, limits),
            sampling=schema.read_sampling(fields, limits),
            max_tokens=schema.read_max_tokens(fields),
            stop=schema.read_stop(fields),
            answers=schema.read_answers(fields),
            background=schema.read_background(fields),
            logprobs=_read_logprobs(fields),
        ),
        model=fields.text("model") or "",
        chat=True,
        stream=stream,
        include_usage=include_usage,
    )


def _read_logprobs(fields: Fields) -> int | None:
    wanted = fields.flag("logprobs")
    top = fields.whole("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top is not None and not wanted:
        raise fields.fault("top_logprobs", "needs logprobs to be true.")
    return (top or 0) if wanted else None


def _refuse_unsupported(fields: Fields) -> None:
    for name in ("tools", "functions"):
        if fields.array(name):
            raise fields.fault(name, "is not supported by this version.")
    for name in ("tool_choice", "function_call"):
        if fields.get(name) not in (None, "none", "auto"):
            raise fields.fault(name, 'needs tools, which this version does not support: send "none" or leave it out.')
    _refuse_sound(fields, fields.array("modalities"))


def _refuse_sound(fields: Fields, modalities: Sequence[Any] | None) -> None:
    if modalities and any(modality != "text" for modality in modalities):
        raise fields.fault("modalities", 'may hold nothing but "text".')
