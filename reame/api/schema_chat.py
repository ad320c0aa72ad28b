"""`POST /v1/chat/completions`: from the body's bytes to what is wanted. Pure.

A conversation whose last message is the assistant's is continued: the answer goes on where that message ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reame.api import schema
from reame.api.schema import Limits, Wanted
from reame.api.schema_conclave import read_conclave
from reame.api.schema_format import Format, names_confidence, read_confidence, read_format
from reame.api.schema_messages import read_messages
from reame.api.schema_tools import read_tools, with_answer
from reame.core.constraint import OF_JSON
from reame.core.request import Call, Chat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.api.schema_fields import Fields

MAX_TOP_LOGPROBS = 20
_TAKEN = frozenset(
    {"messages", "tools", "add_generation_prompt", "strftime_now", "range", "bos_token", "eos_token"}
)
"""Variables that are the server's to set."""


def read_chat(raw: bytes, limits: Limits) -> Wanted:
    """Raises RequestError (400) with the field at fault."""
    fields = schema.read_fields(raw)
    messages = read_messages(fields)
    _refuse_sound(fields, fields.texts("modalities"))
    schema.read_heal(fields)  # healing is of completions; a wrong wish is a fault here too
    tools, form = read_tools(fields), read_format(fields)
    variables = fields.record("chat_template_kwargs")
    answer_field = ""
    if tools.shown and form.constraint:
        if form.constraint.kind not in OF_JSON:
            raise fields.fault(form.field, "and tools cannot be combined: send one of them.")
        tools, answer_field, form = with_answer(tools, form.constraint), form.field, Format(None, "")
    logprobs, stop = _read_logprobs(fields), schema.read_stop(fields)
    stream, include_usage = schema.read_stream(fields)
    return Wanted(
        call=Call(
            prompts=(
                Chat(
                    messages=messages,
                    continue_last=messages[-1]["role"] == "assistant",
                    tools=tools.shown,
                    variables=_read_variables(variables) if variables else {},
                ),
            ),
            n=schema.read_n(fields, limits),
            conclave=read_conclave(fields, limits),
            sampling=schema.read_sampling(fields, limits),
            max_tokens=schema.read_max_tokens(fields),
            stop=() if tools.must else stop,  # stops are looked for in text, and there will be none
            answers=schema.read_answers(fields),
            background=schema.read_background(fields),
            logprobs=logprobs,
            confidence=read_confidence(fields, form, logprobs=logprobs),
            confidence_named=names_confidence(fields),
            constraint=tools.constraint or form.constraint,
            constraint_field="tools" if tools.constraint else form.field,
            answer_field=answer_field,
        ),
        model=fields.text("model") or "",
        chat=True,
        stream=stream,
        include_usage=include_usage,
        tools=bool(tools.shown),
        must_call=tools.must,
    )


def _read_logprobs(fields: Fields) -> int | None:
    wanted = fields.flag("logprobs")
    top = fields.whole("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if top and not wanted:
        raise fields.fault("top_logprobs", "needs logprobs to be true.")
    return (top or 0) if wanted else None


def _refuse_sound(fields: Fields, modalities: Sequence[str] | None) -> None:
    if modalities and any(modality != "text" for modality in modalities):
        raise fields.fault("modalities", 'may hold nothing but "text".')


def _read_variables(given: Fields) -> dict[str, Any]:
    """For the model's template, whose own it must not take away."""
    if taken := sorted(_TAKEN & given.values.keys()):
        raise given.fault(taken[0], "is not a variable of the template that a request may set.")
    return dict(given.values)
