"""What a sequence tells its client: text as it comes, and one end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import frozen

if TYPE_CHECKING:
    from reame.errors import RequestError

FinishReason = Literal["stop", "length"]


@frozen
class TokenLogprob:
    """A generated token: its bytes (perhaps not whole characters), natural logarithm of its probability, rivals."""

    token: int
    piece: bytes
    logprob: float
    top: tuple[tuple[int, bytes, float], ...] = ()


@frozen(kw_only=True)
class Delta:
    """New text, whole characters only, free of any stop string. `text` may be empty when only tokens are told."""

    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    num_computed: int = 0
    """Of a prompt that is only computed, so many tokens are."""


@frozen(kw_only=True)
class Usage:
    """Token counts. `cached_tokens` of the `prompt_tokens` were not computed for this request, and `disk_tokens` of
    these came from the disk."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    disk_tokens: int = 0


@frozen(kw_only=True)
class Timings:
    """Where the time went, in milliseconds: waiting for a slot, until the first token, from first token to end.

    `saved_ms` is what computing the cached tokens would have taken, by what steps took lately.
    """

    queued_ms: float = 0.0
    prefill_ms: float = 0.0
    decode_ms: float = 0.0
    saved_ms: float = 0.0


@frozen(kw_only=True)
class Finish:
    """The end of a sequence: always the last event. With `error` set, what failed; `reason` is then None."""

    reason: FinishReason | None
    usage: Usage
    timings: Timings = Timings()
    error: RequestError | None = None
    stored: bool = False
    """An old answer to the very same request, given again."""


Event = Delta | Finish
