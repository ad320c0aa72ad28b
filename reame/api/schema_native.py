"""`POST /completion` and `POST /infill`, in llama-server's words, as editors send them: bytes to what is wanted. Pure.

What only says how llama-server is to go about it (slots, caches, the order of samplers) is accepted and has no effect
here. What would change the answer and cannot be had is refused.
"""

from __future__ import annotations

from json import dumps
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from reame.api import schema
from reame.api.schema_completion import read_prompts
from reame.api.schema_fields import Fields, kind, parse_object
from reame.api.schema_format import read_format
from reame.core.fim import Infill
from reame.core.request import Call

if TYPE_CHECKING:
    from reame.api.schema import Limits
    from reame.core.request import Sampling

MAX_PROBS = 20
MAX_FILES = 256
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "mirostat": (0,), "dry_multiplier": (0,), "xtc_probability": (0,), "dynatemp_range": (0,), "typical_p": (1,),
    "typ_p": (1,), "top_n_sigma": (0, -1), "lora": ([],), "post_sampling_probs": (False,),
}  # fmt: skip
"""Samplers and the like that this server has not: with these values, which switch them off, they do no harm."""


@frozen(kw_only=True)
class NativeWanted:
    """A body of one of the two, checked. `as_list`: the answer is a list, as the prompts were. `shows_tokens`: the
    answer has the ids of its tokens."""

    call: Call
    model: str = ""
    stream: bool = False
    as_list: bool = False
    shows_tokens: bool = False
    shows_probs: bool = False


@frozen(kw_only=True)
class TextWanted:
    """A body of `/tokenize` (`text`) or of `/detokenize` (`tokens`), checked."""

    model: str = ""
    text: str = ""
    tokens: tuple[int, ...] = ()
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


def read_native(raw: bytes, limits: Limits) -> NativeWanted:
    """Raises RequestError (400) with the field at fault."""
    fields = _translated(raw)
    return _wanted(fields, limits, read_prompts(fields, limits.vocab_size), schema.read_sampling(fields, limits))


def read_infill(raw: bytes, limits: Limits) -> NativeWanted:
    """The line that is typed is `prompt`, or the end of `input_prefix`: it is all one text.

    Without a temperature of its own the completion is the likeliest one.
    """
    fields = _translated(raw)
    for name in ("input_prefix", "input_suffix"):
        if fields.text(name) is None:
            raise fields.fault(name, 'is required: the text on this side of the gap, "" when there is none.')
    gap = Infill(
        prefix=(fields.text("input_prefix") or "") + (fields.text("prompt") or ""),
        suffix=fields.text("input_suffix") or "",
        extra=_read_files(fields),
        cut=True,
    )
    sampling = schema.read_sampling(fields, limits)
    if fields.get("temperature") is None:
        sampling = evolve(sampling, temperature=limits.infill_temperature)
    return _wanted(fields, limits, (gap,), sampling)


def read_text(raw: bytes, limits: Limits) -> TextWanted:
    """For `/tokenize`."""
    fields = Fields(parse_object(raw))
    text = fields.text("content")
    if text is None:
        raise fields.fault("content", "is required: the text that is to be cut into tokens.")
    parse_special = fields.get("parse_special") is None or fields.flag("parse_special")
    return TextWanted(
        model=fields.text("model") or "",
        text=text,
        add_special=fields.flag("add_special"),
        parse_special=parse_special,
        with_pieces=fields.flag("with_pieces"),
    )


def read_tokens(raw: bytes, limits: Limits) -> TextWanted:
    """For `/detokenize`."""
    fields = Fields(parse_object(raw))
    tokens = fields.array("tokens")
    if tokens is None:
        raise fields.fault("tokens", "is required: a list of token ids.")
    top = 2**31 if limits.vocab_size is None else limits.vocab_size
    if any(type(token) is not int or not 0 <= token < top for token in tokens):
        raise fields.fault("tokens", f"must be token ids of this model, which go from 0 to {top - 1}.")
    return TextWanted(model=fields.text("model") or "", tokens=tuple(tokens))


def _translated(raw: bytes) -> Fields:
    """The fields with those that OpenAI writes otherwise in OpenAI's form."""
    fields = schema.read_fields(raw)
    for name, neutral in _NEUTRAL.items():
        if fields.get(name) is not None and fields.get(name) not in neutral:
            raise fields.fault(name, f"is not supported by this version: leave it out, or send {dumps(neutral[-1])}.")
    values = dict(fields.values)
    if values.get("seed") == -1:
        del values["seed"]
    if isinstance(values.get("logit_bias"), list):
        values["logit_bias"] = dict(_bias_pair(fields, pair) for pair in values["logit_bias"])
    return Fields(values)


def _bias_pair(fields: Fields, pair: Any) -> tuple[str, Any]:
    if not (isinstance(pair, list) and len(pair) == 2 and type(pair[0]) is int):
        raise fields.fault("logit_bias", "must be a list of pairs of a token id and a number, or false to ban it.")
    return str(pair[0]), -100 if pair[1] is False else pair[1]


def _read_files(fields: Fields) -> tuple[tuple[str, str], ...]:
    files = fields.array("input_extra") or []
    if len(files) > MAX_FILES:
        raise fields.fault("input_extra", f"may have at most {MAX_FILES} files, not {len(files)}.")
    return tuple(_read_file(fields, index, file) for index, file in enumerate(files))


def _read_file(fields: Fields, index: int, file: Any) -> tuple[str, str]:
    name = f"input_extra[{index}]"
    if not isinstance(file, dict):
        raise fields.fault(name, f"must be an object, not {kind(file)}.")
    inner = Fields(file, name)
    return inner.text("filename") or "file", inner.text("text") or ""


def _wanted(fields: Fields, limits: Limits, prompts: tuple[Any, ...], sampling: Sampling) -> NativeWanted:
    plain_n = schema.read_n(fields, limits)
    n = fields.whole("n_cmpl", 1, limits.max_n) or plain_n
    probs = fields.whole("n_probs", 0, MAX_PROBS) or 0
    shows_tokens = fields.flag("return_tokens")
    if fields.flag("ignore_eos"):
        banned = tuple((token, -100.0) for token in sorted(limits.eog_tokens))
        sampling = evolve(sampling, logit_bias=(*sampling.logit_bias, *banned))
    _refuse_elections(fields)
    form = read_format(fields)
    limit_ms = fields.number("t_max_predict_ms", 0, 1e12)
    return NativeWanted(
        call=Call(
            prompts=prompts,
            n=n,
            sampling=sampling,
            max_tokens=_read_max_tokens(fields),
            stop=schema.read_stop(fields, schema.MAX_EDITOR_STOPS),
            answers=schema.read_answers(fields),
            logprobs=probs if probs or shows_tokens else None,
            ids_only=not probs,
            heal=schema.read_heal(fields),
            background=schema.read_background(fields),
            generation_s=limit_ms / 1e3 if limit_ms else None,
            constraint=form.constraint,
            constraint_field=form.field,
        ),
        model=fields.text("model") or "",
        stream=fields.flag("stream"),
        as_list=n * len(prompts) > 1,
        shows_tokens=shows_tokens,
        shows_probs=probs > 0,
    )


def _refuse_elections(fields: Fields) -> None:
    """These two endpoints' answers have no place for them."""
    own = fields.record("reame") or Fields({})
    for holder, names in ((fields, ("best_of",)), (own, ("vote", "early_stop", "confidence"))):
        for name in names:
            if holder.get(name) is not None:
                raise holder.fault(name, "is not for this endpoint: ask /v1/completions.")


def _read_max_tokens(fields: Fields) -> int | None:
    """-1 means no limit; 0 computes the prompt and answers nothing. A wrong one is a fault beside a right one too."""
    limit, other = fields.whole("n_predict", -1, schema.NO_LIMIT), schema.read_max_tokens(fields, least=0)
    return other if limit is None else None if limit == -1 else limit
