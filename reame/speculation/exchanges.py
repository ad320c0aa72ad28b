"""What differs between two texts that are alike, a name, a number, a word: it may differ in the same way again."""

from __future__ import annotations

from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise
from typing import TYPE_CHECKING

from attrs import Factory, define, frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ANCHORED = 3
"""So many tokens in a row that agree are no chance (numbers share digits): there two texts correspond."""
LONGEST_PART = 12
"""Tokens of the old or the new part at most: what is longer is another text."""
EACH_TOKEN = 8
"""What a token takes in a comparison, in pairs of equal ones."""
MOST = 64
"""Exchanges of a live text; one more replaces the oldest."""


@frozen
class Exchange:
    """Where the old text has `old`, the live one has `new`. Neither is empty."""

    old: tuple[int, ...]
    new: tuple[int, ...]


@define(eq=False)
class Exchanges:
    """Those of one live text, whichever old text they are from: of an old part only the newest."""

    _known: dict[tuple[int, ...], Exchange] = Factory(dict)
    _by_first: dict[int, list[Exchange]] = Factory(dict)
    """By the first token of the old part, the longest first."""

    @property
    def by_first(self) -> Mapping[int, Sequence[Exchange]]:
        return self._by_first

    def learn(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Nothing, if that is no exchange: one of the two is empty, or too long."""
        exchange = Exchange(tuple(old), tuple(new))
        is_one = 0 < len(old) <= LONGEST_PART and 0 < len(new) <= LONGEST_PART and exchange.old != exchange.new
        if not is_one:
            return
        self.forget(exchange.old)
        if len(self._known) == MOST:
            self.forget(next(iter(self._known)))
        self._known[exchange.old] = exchange
        alike = self._by_first.setdefault(exchange.old[0], [])
        alike.append(exchange)
        alike.sort(key=lambda each: -len(each.old))

    def forget(self, old: tuple[int, ...]) -> None:
        """It has failed."""
        if exchange := self._known.pop(old, None):
            alike = self._by_first[old[0]]
            alike.remove(exchange)
            if not alike:
                del self._by_first[old[0]]

    def at(self, text: Sequence[int], position: int) -> Exchange | None:
        """The longest whose old part stands there."""
        for exchange in self._by_first.get(text[position], ()):
            if tuple(text[position : position + len(exchange.old)]) == exchange.old:
                return exchange
        return None

    def compare(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Learn from two texts, such as two prompts, what lies between the places where they correspond. Of what
        precedes the first such place, and follows the last one, nothing is known. What it takes says `effort`.
        """
        blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
        firm = [block for block in blocks if block.size >= ANCHORED]
        for block, following in pairwise(firm):
            self.learn(old[block.a + block.size : following.a], new[block.b + block.size : following.b])


def effort(old: Sequence[int], new: Sequence[int]) -> int:
    """What `Exchanges.compare` takes for these two: about half a microsecond each. A few milliseconds for some hundred
    tokens of a text, but 20 where only two or three different ones alternate: it looks at all pairs of equal ones.
    """
    known = Counter(new)
    return EACH_TOKEN * (len(old) + len(new)) + sum(count * known[token] for token, count in Counter(old).items())
