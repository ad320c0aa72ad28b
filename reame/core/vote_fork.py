"""Where an answer was least certain: there other candidates go another way. Pure."""

from __future__ import annotations

from math import exp, inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.core.events import TokenLogprob


def least_certain(tokens: Sequence[TokenLogprob], margin: float) -> int | None:
    """The index of the token where the two likeliest ones were closest, the first of several; None when none were less
    than `margin` apart. Tokens come with their two likeliest; a token that could be no other is certain."""
    gaps = [_gap(token) for token in tokens]
    closest = min(gaps, default=inf)
    return gaps.index(closest) if closest < margin else None


def _gap(token: TokenLogprob) -> float:
    """From 0 to 1; infinite where there was no choice."""
    likeliest = sorted((exp(logprob) for _, _, logprob in token.top), reverse=True)[:2]
    return likeliest[0] - likeliest[1] if len(likeliest) == 2 else inf


def confidence(tokens: Sequence[TokenLogprob]) -> float:
    """The geometric mean of the tokens' probabilities; 1 without tokens."""
    return exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else 1.0
