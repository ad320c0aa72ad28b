"""The free sources of drafts: each looks at one live text and may guess what follows."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from attrs import Factory, define, field, frozen

from reame.speculation.lookup import LONGEST, NgramIndex
from reame.speculation.palimpsest import SOURCE, likeliest_path
from reame.speculation.realignment import Following, Trail
from reame.speculation.survival import Guess, match_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reame.speculation.palimpsest import Site
    from reame.speculation.realignment import Alignment, Place

MOST = 64
"""Tokens of a guess."""
MOST_COMPANIONS = 8
"""Other live texts that are looked at, the newest first."""
TAIL_CHARACTERS = 2000
"""Of a text, for the sources that read characters."""

MATCH_PRIORS = (0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.9)
"""Chance of the token that follows a match, by its kind, before anything was measured."""
CHANCE_EDGES = (0.75, 0.97)
ALIGNED_PRIORS = (0.5, 0.4, 0.3, 0.5, 0.3, 0.6, 0.4, *MATCH_PRIORS[1:], 0.95)
"""For an old text that is followed, by kind: one, two and more tokens behind a parting; one token that agrees again, by
one shift or by several; two, likewise; and, while they go together, by the length of the agreement, or a repeat."""
REPEATED = len(ALIGNED_PRIORS) - 1
EXCHANGED = len(ALIGNED_PRIORS)
"""The kind of a token that stands in an exchange."""


@define(eq=False)
class LiveText:
    """One sequence as the drafter sees it: its prompt and what was generated, with the bytes of the end."""

    namespace: str
    index: NgramIndex = Factory(NgramIndex)
    hint: tuple[int, ...] = ()
    """What its constraint believes to follow."""
    tail_bytes: bytes = field(default=b"")
    trail: Trail | None = None
    """The best place in an old text that a source has found this time."""
    following: Following = Factory(Following)

    def go_on(self, drawn: Sequence[int], drawn_bytes: bytes) -> None:
        self.index.extend(drawn)
        self.tail_bytes = (self.tail_bytes + drawn_bytes)[-TAIL_CHARACTERS:]
        self.following.advance(drawn)
        self.trail = None

    def offer(self, trail: Trail) -> None:
        """A place that this text goes on from: the one with the longest past in common may be followed."""
        if self.trail is None or trail.length > self.trail.length:
            self.trail = trail

    @property
    def is_repeat(self) -> bool:
        """So far it is the same as the old text that it follows, question and all."""
        return self.following.alignment is not None and self.following.alignment.is_repeat

    @property
    def tail(self) -> Sequence[int]:
        return self.index.tokens[-LONGEST:]


class Source(Protocol):
    """Any guess is legal as long as its token ids exist."""

    def guess(self, text: LiveText) -> Guess | None: ...


@frozen
class Hint:
    """What a constraint believes to follow: bytes that are certain, in tokens that are only likely."""

    name: str = "grammar"

    def guess(self, text: LiveText) -> Guess | None:
        if not text.hint:
            return None
        return Guess(self.name, text.hint[:MOST], [0] * len(text.hint), 0.8)


@frozen
class PromptLookup:
    """The sequence's own text."""

    name: str = "prompt"

    def guess(self, text: LiveText) -> Guess | None:
        match = text.index.find(text.tail)
        if match is None:
            return None
        kind = match_kind(match.length)
        text.offer(Trail(match.length, text.index.place(match.position)))
        return Guess(self.name, text.index.continuation(match.position, MOST), [kind] * MOST, MATCH_PRIORS[kind])


@frozen
class Companions:
    """The other live texts of the same namespace: what one candidate or one record wrote, the next one may too."""

    live: Callable[[], Iterable[LiveText]]
    """All of them, the newest first."""
    name: str = "live"

    def guess(self, text: LiveText) -> Guess | None:
        tail = text.tail
        best: Trail | None = None
        others = (t for t in self.live() if t is not text and t.namespace == text.namespace)
        for _, other in zip(range(MOST_COMPANIONS), others, strict=False):
            match = other.index.find(tail)
            if match and match.length > (best.length if best else 0):
                best = Trail(match.length, other.index.place(match.position))
        if not best:
            return None
        text.offer(best)
        kind, tokens = match_kind(best.length), tuple(best.place.after(MOST))
        return Guess(self.name, tokens, [kind] * len(tokens), MATCH_PRIORS[kind])


@frozen
class Archived:
    """What was generated before, also before the last restart: the archive's sites, merged into a likeliest path."""

    continuations: Callable[[Sequence[int], str], list[Site]]
    """(tail, namespace) -> where it stood in the archive."""
    place: Callable[[Site], Place]
    """Of a site that was just found."""
    name: str = SOURCE

    def guess(self, text: LiveText) -> Guess | None:
        sites = self.continuations(text.tail, text.namespace)
        if not sites:
            return None
        tokens, shares = likeliest_path(sites, MOST)
        longest = max(sites, key=attrgetter("match_length"))
        text.offer(Trail(longest.match_length, self.place(longest)))
        kind = match_kind(longest.match_length) + len(MATCH_PRIORS) * text.is_repeat
        kinds, before = [], 1.0
        for share in shares:
            chance = share / before
            kinds.append(3 * kind + sum(chance >= edge for edge in CHANCE_EDGES))
            before = share
        return Guess(self.name, tokens, kinds, MATCH_PRIORS[match_kind(longest.match_length)])


@frozen
class Realigned:
    """The old text that this one has followed so far, also behind a place where they differ, and with what differed
    before. To be asked after the sources that find old texts."""

    name: str = "realigned"

    def guess(self, text: LiveText) -> Guess | None:
        if text.trail:
            text.following.offer(text.trail, text.index.tokens)
        alignment = text.following.alignment
        if alignment is None:
            return None
        told, exchanged = alignment.ahead(MOST)
        if not told:
            return None
        kind = _alignment_kind(alignment)
        kinds = [EXCHANGED if each else kind for each in exchanged]
        overrules = (told[0], alignment.old[alignment.at]) if exchanged[0] else (told[0],)
        return Guess(self.name, tuple(told), kinds, ALIGNED_PRIORS[kind], overrules)


def _alignment_kind(alignment: Alignment) -> int:
    if alignment.is_repeat:
        return REPEATED
    if not alignment.num_apart:
        return 6 + match_kind(alignment.run)
    if not alignment.run:
        return min(alignment.num_apart, 3) - 1
    return 1 + 2 * alignment.run + alignment.is_ambiguous


@frozen
class Forms:
    """Text structure: what form, not content, puts next. `guess_text` sees the end of the text and may add to it."""

    guess_text: Callable[[str], str]
    tokenize: Callable[[str], Sequence[int]]
    piece: Callable[[int], bytes]
    name: str = "forms"

    def guess(self, text: LiveText) -> Guess | None:
        more = self.guess_text(text.tail_bytes.decode("utf-8", "ignore"))
        tokens = tuple(self.tokenize(more)) if more else ()
        if not tokens or b"".join(map(self.piece, tokens)) != more.encode():
            return None  # this vocabulary writes the beginning of a text in another way
        return Guess(self.name, tokens[:MOST], [0] * len(tokens), 0.6)
