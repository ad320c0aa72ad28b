"""How sure the model was of each field of a JSON answer. Pure.

A field's probability is the product of those of the tokens that decided it, each among the tokens that its constraint
allowed there. So what could be only one way counts for nothing, and a field that could be only one way has 1.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from math import exp, fsum
from typing import TYPE_CHECKING

from reame.core.json_leaves import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.core.events import TokenLogprob


def field_confidence(tokens: Sequence[TokenLogprob]) -> dict[str, float]:
    """JSON pointer of each complete leaf -> probability. `tokens` are all of an answer in compact JSON; their logprobs
    are those after the constraint, 0 for forced ones, and the last may be one that ends a generation."""
    text = b"".join(token.piece for token in tokens)
    starts = list(accumulate((len(token.piece) for token in tokens), initial=0))[:-1]
    sure = {}
    for leaf in leaves(text):
        first = bisect_right(starts, leaf.start) - 1
        last = bisect_right(starts, leaf.stop - 1) - 1
        sure[leaf.pointer] = exp(fsum(token.logprob for token in tokens[first : last + 1]))
    return sure
