"""From places in the archive that end like a text to one likeliest continuation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

SOURCE = "palimpsest"
"""The name of this source of drafts."""
HALF_AGE = 100_000.0
"""After so many tokens more a place counts half."""
UNSEEN = 16.0
"""Weight of what nobody has seen yet: one place that matches in 4 tokens is as good as a coin."""


class Site(NamedTuple):
    """A place in the archive where the text went on with `tokens`, after `match_length` tokens that are the live text's
    last ones. `age`: tokens appended since. `tokens` end where that generation did.

    A tuple, not an attrs class: dozens are made between two tokens.
    """

    match_length: int
    age: int
    tokens: tuple[int, ...]


def likeliest_path(sites: Iterable[Site], most: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """At most `most` tokens, and for each the estimated probability that it and all before it come true (never rising).

    The continuations are merged into a tree, and the path takes the heaviest branch at each fork; a token's probability
    is the share that its branch has of all weight, the unseen's included.
    """
    weights: dict[tuple[int, ...], float] = {}
    for match_length, age, tokens in sites:
        weights[tokens] = weights.get(tokens, 0.0) + match_length**2 / (1.0 + age / HALF_AGE)
    total = UNSEEN + sum(weights.values())
    alive = list(weights.items())
    path: list[int] = []
    shares: list[float] = []
    while len(alive) > 1 and len(path) < most:
        depth = len(path)
        branches: dict[int, float] = {}
        alive = [each for each in alive if len(each[0]) > depth]
        for tokens, weight in alive:
            token = tokens[depth]
            branches[token] = branches.get(token, 0.0) + weight
        if not branches:
            break
        best = max(branches, key=branches.__getitem__)
        path.append(best)
        shares.append(branches[best] / total)
        if len(branches) > 1:
            alive = [each for each in alive if each[0][depth] == best]
    for tokens, weight in alive:  # one at most: nothing forks any more
        rest = tokens[len(path) : most]
        path += rest
        shares += [weight / total] * len(rest)
    return tuple(path), tuple(shares)
