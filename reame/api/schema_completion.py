"""`POST /v1/completions`: from the body's bytes to what is wanted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reame.api import schema
from reame.api.schema import Limits, Wanted
from reame.api.schema_conclave import read_conclave
from reame.api.schema_fields import kind
from reame.api.schema_format import names_confidence, read_confidence, read_format
from reame.core.fim import Infill
from reame.core.request import Call

if TYPE_CHECKING:
    from reame.api.schema_fields import Fields

MAX_LOGPROBS = 5
_MARKS = ("<|fim_", "<fim_", "<PRE>", "[SUFFIX]", "<\uff5cfim", "<|code_")
"""How the marks of models that fill in the middle begin. Editors write the whole prompt themselves."""


def read_completion(raw: bytes, limits: Limits) -> Wanted:
    """Raises RequestError (400) with the field at fault."""
    fields = schema.read_fields(raw)
    prompts = read_prompts(fields, limits.vocab_size)
    logprobs = fields.whole("logprobs", 0, MAX_LOGPROBS)
    n, conclave = schema.read_n(fields, limits), read_conclave(fields, limits)
    suffix = fields.text("suffix") or ""
    echo = fields.flag("echo")
    rated = echo and logprobs is not None
    form = read_format(fields)
    stream, include_usage = schema.read_stream(fields)
    return Wanted(
        call=Call(
            prompts=_around_gaps(fields, prompts, suffix, rated=rated) if suffix else prompts,
            n=n,
            conclave=conclave,
            sampling=schema.read_sampling(fields, limits),
            max_tokens=schema.read_max_tokens(fields, least=0),
            stop=schema.read_stop(fields, _most_stops(prompts, suffix)),
            answers=schema.read_answers(fields) and not rated,
            heal=schema.read_heal(fields),
            prompt_logprobs=rated,
            background=schema.read_background(fields),
            logprobs=logprobs,
            confidence=read_confidence(fields, form, logprobs=logprobs),
            confidence_named=names_confidence(fields),
            constraint=form.constraint,
            constraint_field=form.field,
        ),
        model=fields.text("model") or "",
        stream=stream,
        include_usage=include_usage,
        echo=tuple(_written(prompt, limits) for prompt in prompts) if echo else (),
    )


def read_prompts(fields: Fields, vocab_size: int | None) -> tuple[str | tuple[int, ...], ...]:
    value = fields.get("prompt")
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value:
        if all(isinstance(item, str) for item in value):
            return tuple(value)
        if all(isinstance(item, list) for item in value):
            return tuple(_token_ids(fields, item, vocab_size) for item in value)
        return (_token_ids(fields, value, vocab_size),)
    if value is None:
        raise fields.fault("prompt", "is required.")
    what = "an empty list" if value == [] else kind(value)
    raise fields.fault("prompt", f"must be a string, token ids, or a list of either, not {what}.")


def _token_ids(fields: Fields, value: list[Any], vocab_size: int | None) -> tuple[int, ...]:
    if not value:
        raise fields.fault("prompt", "has an empty list of token ids.")
    if set(map(type, value)) != {int}:
        raise fields.fault("prompt", "must be all text or all token ids.")
    top = 2**31 if vocab_size is None else vocab_size
    if min(value) < 0 or max(value) >= top:
        raise fields.fault("prompt", f"has a token id that this model does not have; they go from 0 to {top - 1}.")
    return tuple(value)


def _written(prompt: str | tuple[int, ...], limits: Limits) -> str:
    if isinstance(prompt, str) or limits.spelled is None:
        return str(prompt)
    return b"".join(map(limits.spelled, prompt)).decode("utf-8", "replace")


def _around_gaps(
    fields: Fields, prompts: tuple[str | tuple[int, ...], ...], suffix: str, *, rated: bool
) -> tuple[Infill, ...]:
    if rated:
        raise fields.fault("suffix", "cannot be combined with echo and logprobs.")
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) != len(prompts):
        raise fields.fault("suffix", "needs a prompt that is text.")
    return tuple(Infill(prefix=text, suffix=suffix) for text in texts)


def _most_stops(prompts: tuple[str | tuple[int, ...], ...], suffix: str) -> int:
    marked = any(isinstance(prompt, str) and any(mark in prompt for mark in _MARKS) for prompt in prompts)
    return schema.MAX_EDITOR_STOPS if suffix or marked else schema.MAX_STOPS
