"""An old text beside the live one: where it goes on behind a place where the two differ.

Local alignment in a narrow band, token by token: for each shift between the two, how many of the last tokens agree. The
texts that speculative look-up by n-grams loses at every changed name or number are found again at the first token that
agrees, or before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from attrs import Factory, define

from reame.speculation.exchanges import ANCHORED, Exchanges, effort

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.speculation.exchanges import Exchange

REACH = 16
"""Tokens that may be added to the old text, or left out of it, where the two part."""
LOST = 2 * REACH
"""After so many tokens that do not agree again, the old text is given up."""
WINDOW = 512
"""Tokens of an old text that are read."""
COMPARED = 256
"""Tokens before the place that are compared with the live text."""
LEAST_REPEATED = 24
"""Tokens before the place that make a repeat, if they are the same and all that there are."""
LEAST_FOLLOWED = 6
"""Tokens in common that make an old text worth following."""
MOST_EFFORT, EFFORT = 1 << 16, 128
"""What a text may spend on comparisons at once, some 30 ms (`exchanges.effort`), and what each of its tokens adds, some
50 us. Texts of few different tokens find a longer past every few tokens, and to compare them takes longer than a step
of a small model."""


class Place(Protocol):
    """A place in an old text, between two tokens."""

    def after(self, most: int) -> Sequence[int]:
        """The tokens that follow, to the text's end or so many."""
        ...

    def before(self, most: int) -> Sequence[int]:
        """The tokens that precede it, from the text's beginning or so many."""
        ...


class Trail(NamedTuple):
    """A place that the live text goes on from: the `length` tokens before it are the live text's last ones."""

    length: int
    place: Place


@define(eq=False)
class Alignment:
    """`old[at]` is what should come next, unless it is exchanged. `run`: how many of the live text's last tokens agree
    with the old one's; `num_apart`: tokens since they parted, 0 while they go together."""

    old: Sequence[int]
    run: int
    exchanges: Exchanges
    is_repeat: bool = False
    """All that was compared is the same, and nothing has differed since."""
    at: int = 0
    num_apart: int = 0
    is_ambiguous: bool = False
    """While apart: several shifts agree equally well."""
    _exchanged: tuple[Exchange, int] | None = None
    """The exchange that the live text is in, and how many of its tokens have come."""
    _parted_at: int = 0
    _apart: list[int] = Factory(list)
    _runs: list[int] = Factory(list)
    """By shift, from -min(num_apart, REACH) to REACH: how many of the last tokens agree."""

    @property
    def is_over(self) -> bool:
        """It has nothing more to say."""
        return self.num_apart > LOST or self.at >= len(self.old)

    def advance(self, token: int) -> None:
        """The live text went on with `token`: half a microsecond, or five while they are apart."""
        if self.num_apart:
            self._compare(token)
            return
        exchange, done = self._exchanged or (self.exchanges.at(self.old, self.at), 0)
        self._exchanged = None
        if exchange is None:
            if self.old[self.at] == token:
                self.at, self.run = self.at + 1, self.run + 1
            else:
                self._part(token)
        elif exchange.new[done] != token:
            self.exchanges.forget(exchange.old)
            self._part(*exchange.new[:done], token)
        elif done + 1 < len(exchange.new):
            self._exchanged = exchange, done + 1
        else:
            self.at, self.run = self.at + len(exchange.old), self.run + 1

    def ahead(self, most: int) -> tuple[list[int], list[bool]]:
        """What should come next, at most so many tokens; and of each whether it stands in an exchange."""
        old, position, exchanges = self.old, self.at, self.exchanges
        told: list[int] = []
        exchanged: list[bool] = []
        if self._exchanged:
            exchange, done = self._exchanged
            told += exchange.new[done:]
            exchanged += [True] * len(told)
            position += len(exchange.old)
        if exchanges.by_first.keys().isdisjoint(rest := old[position : position + most]):
            told += rest
            exchanged += [False] * len(rest)
            position = len(old)
        while len(told) < most and position < len(old):
            found = exchanges.at(old, position) if old[position] in exchanges.by_first else None
            new = found.new if found else (old[position],)
            told += new
            exchanged += [found is not None] * len(new)
            position += len(found.old) if found else 1
        return told[:most], exchanged[:most]

    def _part(self, *tokens: int) -> None:
        """These came instead of what stands at `at`."""
        self._parted_at, self._apart, self._runs = self.at, [], [0] * (REACH + 1)
        self.is_repeat = False
        for token in tokens:
            self._compare(token)

    def _compare(self, token: int) -> None:
        """Move on along every shift. Of equal agreements the one with the smallest shift is believed; with none at all,
        no shift: one token stands for another."""
        runs, backward = self._runs, min(len(self._apart), REACH)
        first = self._parted_at + len(self._apart) - backward
        beside = self.old[first : first + len(runs)]
        runs[:] = [run + 1 if known == token else 0 for run, known in zip(runs, beside, strict=False)]
        runs += [0] * (backward + REACH + 1 - len(runs))
        self._apart.append(token)
        best = max(runs)
        shifts = [index - backward for index, run in enumerate(runs) if run == best] if best else [0]
        self.run, self.is_ambiguous = best, len(shifts) > 1
        self.num_apart = len(self._apart)
        self.at = self._parted_at + self.num_apart + min(shifts, key=abs)
        if backward < REACH:
            runs.insert(0, 0)
        if best >= ANCHORED:
            self.exchanges.learn(self.old[self._parted_at : self.at - best], self._apart[:-best])
            self.num_apart = 0


@define(eq=False)
class Following:
    """Which old text a live one goes along with, if any."""

    alignment: Alignment | None = None
    _exchanges: Exchanges = Factory(Exchanges)
    _effort: int = MOST_EFFORT

    def advance(self, drawn: Sequence[int]) -> None:
        """The live text went on with these."""
        self._effort = min(MOST_EFFORT, self._effort + EFFORT * len(drawn))
        for token in drawn:
            if self.alignment is None or self.alignment.is_over:
                break
            self.alignment.advance(token)
        if self.alignment is not None and self.alignment.is_over:
            self.alignment = None

    def offer(self, trail: Trail, tokens: Sequence[int]) -> None:
        """A place that has just been found; `tokens`: the live text. It is followed from now on when more tokens agree
        there than with what is followed."""
        if trail.length < LEAST_FOLLOWED or (self.alignment and self.alignment.run >= trail.length):
            return
        before = trail.place.before(COMPARED)
        is_repeat = len(before) >= LEAST_REPEATED and list(before) == list(tokens[-len(before) :])
        if not is_repeat:
            self._compare(before, tokens[-COMPARED - COMPARED // 4 :])
        self.alignment = Alignment(trail.place.after(WINDOW), trail.length, self._exchanges, is_repeat)

    def _compare(self, old: Sequence[int], new: Sequence[int]) -> None:
        """If it can be afforded."""
        cost = effort(old, new)
        if cost <= self._effort:
            self._effort -= cost
            self._exchanges.compare(old, new)
