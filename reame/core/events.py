"""What a sequence tells its client: text as it comes, and one end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import Factory, frozen

from reame.core.draft import DraftCount

if TYPE_CHECKING:
    from reame.core.labels import LabelChance
    from reame.core.vote import Progress, Verdict
    from reame.errors import RequestError

FinishReason = Literal["stop", "length"]


@frozen
class TokenLogprob:
    """A generated token: its bytes (perhaps not whole characters), natural logarithm of its probability, rivals."""

    token: int
    piece: bytes
    logprob: float
    top: tuple[tuple[int, bytes, float], ...] = ()


def certain(token: int, piece: bytes, top: int) -> TokenLogprob:
    """Of a token that its constraint forced: it could be no other."""
    return TokenLogprob(token, piece, 0.0, ((token, piece, 0.0),) if top else ())


@frozen(kw_only=True)
class Delta:
    """New text, whole characters only, free of any stop string. `text` may be empty when only tokens are told."""

    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    prompt_logprobs: tuple[TokenLogprob, ...] = ()
    """Of all the prompt's tokens, in one delta before any text. Nothing precedes the first one: its logprob is nan."""
    num_computed: int = 0
    """Of a prompt that is only computed, so many tokens are."""
    progress: Progress | None = None
    """Of an election: no text yet."""


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
    num_again: int = 0
    """Of the completion's tokens, those that did nothing but spell what was taken back from the prompt."""
    timings: Timings = Timings()
    drafts: DraftCount = Factory(DraftCount)
    """Drafted tokens that were verified for it, and what came of them."""
    error: RequestError | None = None
    stop: str = ""
    """The stop string that ended it, if one did."""
    stored: bool = False
    """An old answer to the very same request, given again."""
    verdict: Verdict | None = None
    """How it was elected; the usage is then that of all candidates."""
    labels: tuple[LabelChance, ...] = ()
    """Where this was asked: the probability of every label after this prompt, the likeliest first."""


Event = Delta | Finish
