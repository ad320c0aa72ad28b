"""`POST /v1/completions`: from the body's bytes to what is wanted. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from reame.api import schema
from reame.api.schema import Limits, Wanted
from reame.api.schema_fields import kind
from reame.core.request import Call

if TYPE_CHECKING:
    from reame.api.schema_fields import Fields

MAX_LOGPROBS = 5


def read_completion(raw: bytes, limits: Limits) -> Wanted:
    """Raises RequestError (400) with the field at fault."""
    fields = schema.read_fields(raw)
    prompts = _read_prompts(fields, limits.vocab_size)
    logprobs = fields.whole("logprobs", 0, MAX_LOGPROBS)
    n = schema.read_n(fields, limits)
    _refuse_unsupported(fields, n)
    stream, include_usage = schema.read_stream(fields)
    return Wanted(
        call=Call(
            prompts=prompts,
            n=n,
            sampling=schema.read_sampling(fields, limits),
            max_tokens=schema.read_max_tokens(fields),
            stop=schema.read_stop(fields),
            answers=schema.read_answers(fields),
            logprobs=logprobs,
        ),
        model=fields.text("model") or "",
        stream=stream,
        include_usage=include_usage,
        echo=_read_echo(fields, prompts, logprobs),
    )


def _read_prompts(fields: Fields, vocab_size: int | None) -> tuple[str | tuple[int, ...], ...]:
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


def _read_echo(fields: Fields, prompts: tuple[str | tuple[int, ...], ...], logprobs: int | None) -> tuple[str, ...]:
    if not fields.flag("echo"):
        return ()
    if logprobs is not None:
        raise fields.fault("echo", "together with logprobs is not supported by this version.")
    if not all(isinstance(prompt, str) for prompt in prompts):
        raise fields.fault("echo", "of token ids is not supported by this version: send the prompt as text.")
    return cast("tuple[str, ...]", prompts)


def _refuse_unsupported(fields: Fields, n: int) -> None:
    if fields.text("suffix"):
        raise fields.fault("suffix", "is not supported by this version.")
    best_of = fields.whole("best_of", 1, 10**6)
    if best_of not in (None, n):
        raise fields.fault("best_of", f"other than n ({n}) is not supported by this version.")
