"""The free sources of drafts: each looks at one live text and may guess what follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attrs import Factory, define, field, frozen

from reame.speculation.lookup import LONGEST, NgramIndex
from reame.speculation.palimpsest import SOURCE, likeliest_path
from reame.speculation.survival import Guess, match_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reame.speculation.palimpsest import Site

MOST = 64
"""Tokens of a guess."""
MOST_COMPANIONS = 8
"""Other live texts that are looked at, the newest first."""
TAIL_CHARACTERS = 2000
"""Of a text, for the sources that read characters."""

MATCH_PRIORS = (0.3, 0.45, 0.55, 0.65, 0.75, 0.85, 0.9)
"""Chance of the token that follows a match, by its kind, before anything was measured."""
CHANCE_EDGES = (0.75, 0.97)


@define(eq=False)
class LiveText:
    """One sequence as the drafter sees it: its prompt and what was generated, with the bytes of the end."""

    namespace: str
    index: NgramIndex = Factory(NgramIndex)
    hint: tuple[int, ...] = ()
    """What its constraint believes to follow."""
    tail_bytes: bytes = field(default=b"")

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
        return Guess(self.name, text.index.continuation(match.position, MOST), [kind] * MOST, MATCH_PRIORS[kind])


@frozen
class Companions:
    """The other live texts of the same namespace: what one candidate or one record wrote, the next one may too."""

    live: Callable[[], Iterable[LiveText]]
    """All of them, the newest first."""
    name: str = "live"

    def guess(self, text: LiveText) -> Guess | None:
        tail, best, longest = text.tail, None, 0
        others = (t for t in self.live() if t is not text and t.namespace == text.namespace)
        for _, other in zip(range(MOST_COMPANIONS), others, strict=False):
            match = other.index.find(tail)
            if match and match.length > longest:
                longest, best = match.length, other.index.tokens[match.position : match.position + MOST]
        if not best:
            return None
        kind = match_kind(longest)
        return Guess(self.name, tuple(best), [kind] * len(best), MATCH_PRIORS[kind])


@frozen
class Archived:
    """What was generated before, also before the last restart: the archive's sites, merged into a likeliest path."""

    continuations: Callable[[Sequence[int], str], list[Site]]
    """(tail, namespace) -> where it stood in the archive."""
    name: str = SOURCE

    def guess(self, text: LiveText) -> Guess | None:
        sites = self.continuations(text.tail, text.namespace)
        if not sites:
            return None
        tokens, shares = likeliest_path(sites, MOST)
        kind = match_kind(max(site.match_length for site in sites))
        kinds, before = [], 1.0
        for share in shares:
            chance = share / before
            kinds.append(3 * kind + sum(chance >= edge for edge in CHANCE_EDGES))
            before = share
        return Guess(self.name, tokens, kinds, MATCH_PRIORS[kind])


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
