"""What chat and completions have in common: sampling, limits, stop strings, and what is refused. Pure.

A request's own value wins over the server's default (`[sampling]` of the configuration). Fields that nobody here knows
are accepted and ignored; fields that ask for something which this version cannot do are refused, never dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from reame.api.schema_fields import Fields, parse_object

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.core.request import Call, Sampling

MAX_STOPS = 4
MAX_EDITOR_STOPS = 64
"""Where a gap is filled in: editors send the marks of many models, and what begins the next piece of code."""
MAX_STOP_CHARS = 1024
NO_LIMIT = 10**18
LEAST_TEMPERATURE = 1e-6


@frozen(kw_only=True)
class Limits:
    """What the server allows, and what a request gets that does not say otherwise.

    `max_n`: answers to one prompt at most. `vocab_size` and `spelled` None: no model yet, token ids can neither be
    checked nor be written out.
    """

    sampling: Sampling
    max_n: int
    vocab_size: int | None = None
    spelled: Callable[[int], bytes] | None = None
    eog_tokens: frozenset[int] = frozenset()
    infill_temperature: float = 0.0
    conclave_candidates: int = 5
    conclave_margin: float = 0.1
    """Of `best_of: "auto"`: candidates at most; how close two tokens are between which the first one was uncertain."""


@frozen(kw_only=True)
class Wanted:
    """A body of `/v1/completions` or `/v1/chat/completions`, checked.

    `model` "" means any. `tools`: the answer may hold calls of tools; `must_call`: and nothing else. `echo` holds the
    prompts' texts when they are to be repeated in front of the answers.
    """

    call: Call
    model: str = ""
    chat: bool = False
    stream: bool = False
    include_usage: bool = False
    tools: bool = False
    must_call: bool = False
    echo: tuple[str, ...] = ()

    @property
    def either(self) -> bool:
        """The answer is text of a form or calls of tools, not both."""
        return bool(self.call.answer_field)


def read_fields(raw: bytes) -> Fields:
    """The body as fields. Raises RequestError (400)."""
    return Fields(parse_object(raw))


def read_sampling(fields: Fields, limits: Limits) -> Sampling:
    """The server's defaults with the request's own values over them."""
    top_k = fields.whole("top_k", -1, 10**6)
    repeat = fields.number("repetition_penalty", 0, 10, above=True)
    own: dict[str, Any] = {
        "temperature": _settled(fields.number("temperature", 0, 2)),
        "top_k": None if top_k is None else max(top_k, 0),
        "top_p": fields.number("top_p", 0, 1, above=True),
        "min_p": fields.number("min_p", 0, 1),
        "repeat_penalty": fields.number("repeat_penalty", 0, 10, above=True) or repeat,
        "repeat_last_n": fields.whole("repeat_last_n", 0, 10**6),
        "presence_penalty": fields.number("presence_penalty", -2, 2),
        "frequency_penalty": fields.number("frequency_penalty", -2, 2),
        "seed": fields.whole("seed", -(2**63), 2**64 - 1),
        "logit_bias": _read_bias(fields, limits.vocab_size),
    }
    return evolve(limits.sampling, **{name: value for name, value in own.items() if value is not None})


def _settled(temperature: float | None) -> float | None:
    """What is divided by a smaller one is too large for a float, and nothing would be drawn."""
    return 0.0 if temperature is not None and temperature < LEAST_TEMPERATURE else temperature


def _read_bias(fields: Fields, vocab_size: int | None) -> tuple[tuple[int, float], ...]:
    table = fields.record("logit_bias")
    if table is None:
        return ()
    bias = []
    for key in table.values:
        if not (key.isascii() and key.isdigit() and len(key) <= 9 and str(int(key)) == key):
            raise fields.fault("logit_bias", 'must map token ids, as strings such as "42", to numbers.')
        if vocab_size is not None and int(key) >= vocab_size:
            raise fields.fault("logit_bias", f"has the token id {key}; this model's go from 0 to {vocab_size - 1}.")
        value = table.number(key, -100, 100)
        if value is None:
            raise table.wrong(key, "a number from -100 to 100")
        bias.append((int(key), value))
    return tuple(bias)


def read_stop(fields: Fields, most: int = MAX_STOPS) -> tuple[str, ...]:
    """Stop strings: one or a list of up to `most`; empty ones say nothing and are left out."""
    value = fields.get("stop")
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise fields.fault("stop", "must be a string or a list of strings.")
    if len(stops) > most:
        raise fields.fault("stop", f"may have at most {most} strings, not {len(stops)}.")
    if any(len(stop) > MAX_STOP_CHARS for stop in stops):
        raise fields.fault("stop", f"may have strings of at most {MAX_STOP_CHARS} characters.")
    return tuple(stop for stop in stops if stop)


def read_max_tokens(fields: Fields, least: int = 1) -> int | None:
    """The limit under either of its names; one far above the context is fine and is clamped later. `least` is that of
    the older name: an evaluation asks for no tokens under it."""
    new = fields.whole("max_completion_tokens", 1, NO_LIMIT)
    old = fields.whole("max_tokens", least, NO_LIMIT)
    if new is not None and old is not None and new != old:
        raise fields.fault("max_completion_tokens", "and max_tokens mean the same and differ: send one of them.")
    return old if new is None else new


def read_n(fields: Fields, limits: Limits) -> int:
    return fields.whole("n", 1, limits.max_n) or 1


def read_answers(fields: Fields) -> bool:
    """Whether an old answer to the very same request will do: `{"reame": {"answers": false}}` says no."""
    own = fields.record("reame")
    return own is None or own.get("answers") is None or own.flag("answers")


def read_heal(fields: Fields) -> bool | None:
    """Whether a prompt may be taken back to where its last word begins: `{"reame": {"heal": true}}`; None: not said."""
    own = fields.record("reame")
    return None if own is None or own.get("heal") is None else own.flag("heal")


def read_background(fields: Fields) -> bool:
    """Whether it only takes what nobody else feels: `{"reame": {"background": true}}`."""
    own = fields.record("reame")
    return own is not None and own.flag("background")


def read_stream(fields: Fields) -> tuple[bool, bool]:
    """(stream, include_usage). `stream_options` without `stream` is ignored."""
    options = fields.record("stream_options")
    include_usage = options is not None and options.flag("include_usage")
    return (True, include_usage) if fields.flag("stream") else (False, False)
