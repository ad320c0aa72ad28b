"""A model that knows nothing: it draws any token that the mask allows, the short ones of JSON rather more often."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from reame.core.constraint import Constraint, Matcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.constraint.tokens import Tokens

MAX_TOKENS = 400
_CLOSING = frozenset(b'"}],0:')


@frozen
class Walk:
    """`ended`: by the model or the constraint, not by `MAX_TOKENS`. `drawn`: the tokens that were not forced."""

    text: bytes
    tokens: tuple[int, ...]
    drawn: tuple[int, ...]
    ended: bool


class Walker:
    """Tells closing tokens once for a vocabulary."""

    def __init__(self, tokens: Tokens, piece: Callable[[int], bytes]) -> None:
        self._ends = tokens.ends
        self._piece = piece
        self._closing = np.array([bool(p := piece(token)) and _CLOSING.issuperset(p) for token in range(tokens.size)])

    def walk(self, matcher: Matcher, seed: int) -> Walk:
        random = np.random.default_rng(seed)
        tokens: list[int] = []
        drawn: list[int] = []
        ended = matcher.is_over
        while not ended and len(tokens) < MAX_TOKENS:
            forced = list(matcher.forced())
            for token in forced:
                matcher.consume(token)
            tokens += forced
            ended = matcher.is_over
            if ended or forced:
                continue
            token = self._draw(matcher, random)
            ended = bool(self._ends[token])
            if not ended:
                matcher.consume(token)
                tokens.append(token)
                drawn.append(token)
                ended = matcher.is_over
        return Walk(b"".join(map(self._piece, tokens)), tuple(tokens), tuple(drawn), ended)

    def _draw(self, matcher: Matcher, random: np.random.Generator) -> int:
        mask = matcher.mask()
        assert mask.any(), "a dead end"
        likely = mask & (self._closing | self._ends)
        return int(random.choice(np.flatnonzero(likely if likely.any() and random.random() < 0.5 else mask)))


def of_schema(schema: Any) -> Constraint:
    return Constraint("json_schema", json.dumps(schema))
