"""Answers that are one of a list of labels: no grammar is needed for these, only the tree of their tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from reame.constraint.fault import ConstraintFault
from reame.core.labels import LabelTree
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from reame.constraint.tokens import Tokens
    from reame.core.labels import Label

MAX_LABELS = 10_000


@frozen(eq=False)
class LabelGrammar:
    """See `compiler.Grammar`."""

    labels: LabelTree
    size: int
    _tokens: Tokens

    def matcher(self) -> LabelMatcher:
        return LabelMatcher(self.labels, self._tokens)


def label_grammar(labels: Mapping[str, Label], tokens: Tokens, size: int) -> LabelGrammar:
    """`labels` by their texts. Raises ConstraintFault when one cannot be written."""
    if len(labels) > MAX_LABELS:
        raise ConstraintFault(f"has {len(labels)} labels; at most {MAX_LABELS} are supported")
    written = []
    for number, text in enumerate(labels):
        cut = tokens.cut.exactly(text)
        if cut is None:
            raise ConstraintFault(f"has a label, number {number + 1}, that cannot be written in this model's tokens")
        written.append(tuple(cut))
    return LabelGrammar(LabelTree(labels.values(), written), size, tokens)


class LabelMatcher:
    """Follows one answer; see `core.constraint.Matcher`."""

    def __init__(self, tree: LabelTree, tokens: Tokens) -> None:
        self._tree = tree
        self._tokens = tokens
        self._place = tree.root

    @property
    def is_over(self) -> bool:
        return self._tree.is_over(self._place)

    def mask(self) -> NDArray[np.bool_]:
        may_end = self._tree.may_end(self._place)
        mask = self._tokens.ends.copy() if may_end else np.zeros(self._tokens.size, bool)
        mask[[token for token, _ in self._tree.ways(self._place)]] = True
        return mask

    def consume(self, token: int) -> None:
        """Raises RequestError for a token that is not part of any label there."""
        after = self._tree.step(self._place, token)
        if after is None:
            raise RequestError("the answer can no longer become one of the labels")
        self._place = after

    def forced(self) -> tuple[int, ...]:
        return self._tree.forced(self._place)

    def guess(self) -> tuple[int, ...]:
        """None: whatever is certain is forced."""
        return ()

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        place = self._place
        for number, token in enumerate(tokens):
            after = self._tree.step(place, token)
            if after is None:
                return number
            place = after
        return len(tokens)
