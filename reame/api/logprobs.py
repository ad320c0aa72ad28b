"""Tokens and their log-probabilities in OpenAI's two shapes. Pure.

A token is shown as its text; one that is no whole text as its bytes: `\\xe6\\x97`, in completions `bytes:\\xe6\\x97`.
JSON has no infinity: what cannot happen gets -9999, as OpenAI writes it. What nothing precedes gets null.
"""

from __future__ import annotations

from codecs import getincrementaldecoder
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from attrs import evolve

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reame.core.events import TokenLogprob

IMPOSSIBLE = -9999.0
_UTF8 = getincrementaldecoder("utf-8")


def chat_logprobs(tokens: Iterable[TokenLogprob]) -> dict[str, Any]:
    """`choices[].logprobs` of a chat."""
    return {"content": [_chat_token(token) for token in tokens], "refusal": None}


def rated_with_id(token: TokenLogprob) -> dict[str, Any]:
    """As llama-server shows it in `completion_probabilities`."""
    top = [{"id": rival, **_rated(piece, logprob)} for rival, piece, logprob in token.top]
    return {"id": token.token, **_rated(token.piece, token.logprob), "top_logprobs": top}


def _chat_token(token: TokenLogprob) -> dict[str, Any]:
    top = [_rated(piece, logprob) for _, piece, logprob in token.top]
    return {**_rated(token.piece, token.logprob), "top_logprobs": top}


def _rated(piece: bytes, logprob: float) -> dict[str, Any]:
    return {"token": _shown(piece), "logprob": _finite(logprob), "bytes": list(piece)}


class CompletionLogprobs:
    """The tokens of one completion as they come: `text_offset` counts on from one `take` to the next.

    An offset is the index, in characters, of the token's first whole character in the choice's text.
    """

    def __init__(self) -> None:
        self._decoder = _UTF8(errors="replace")
        self._length = 0

    def take(self, tokens: Iterable[TokenLogprob]) -> dict[str, Any]:
        """`choices[].logprobs` for these tokens: four lists of equal length."""
        tokens = tuple(tokens)
        return {
            "tokens": [_shown(token.piece, "bytes:") for token in tokens],
            "token_logprobs": [_finite(token.logprob) for token in tokens],
            "top_logprobs": [_rivals(token) for token in tokens],
            "text_offset": [self._advance(token.piece) for token in tokens],
        }

    def _advance(self, piece: bytes) -> int:
        offset = self._length
        self._length += len(self._decoder.decode(piece))
        return offset


def aligned(tokens: Iterable[TokenLogprob], text: str) -> list[TokenLogprob]:
    """A prompt's tokens, such that together they spell `text`: a BOS or a blank that the tokeniser put in front is
    not shown."""
    tokens, wanted = list(tokens), text.encode("utf-8", "replace")
    spelled = b"".join(token.piece for token in tokens)
    excess = len(spelled) - len(wanted) if spelled.endswith(wanted) else 0
    for index, token in enumerate(tokens):
        gone = min(excess, len(token.piece))
        tokens[index] = evolve(token, piece=token.piece[gone:])
        excess -= gone
    return tokens


def _rivals(token: TokenLogprob) -> dict[str, float | None] | None:
    """The likeliest tokens, and always the chosen one."""
    if isnan(token.logprob):
        return None
    rivals = {_shown(piece, "bytes:"): _finite(logprob) for _, piece, logprob in token.top}
    return {**rivals, _shown(token.piece, "bytes:"): _finite(token.logprob)}


def _shown(piece: bytes, mark: str = "") -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return mark + "".join(f"\\x{byte:02x}" for byte in piece)


def _finite(logprob: float) -> float | None:
    if isnan(logprob):
        return None
    return logprob if isfinite(logprob) else IMPOSSIBLE
