"""Whether drafts pay at present, by source: said when it changes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from reame.core.draft import DraftCount

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_DRAWN = 300
"""Tokens drawn since the last look, else there is nothing to judge by."""
LEAST_PROPOSED = 30
"""Drafted tokens of a source, likewise."""


@define
class Verdicts:
    """Compares what was counted with the last look. A source that had little to say meanwhile keeps its verdict."""

    _seen: dict[str, DraftCount] = field(factory=dict, init=False)
    _num_drawn: int = field(default=0, init=False)
    _pays: dict[str, bool] = field(factory=dict, init=False)
    _in_use: bool | None = field(default=None, init=False)

    def look(self, drafts: Mapping[str, DraftCount], num_drawn: int) -> str | None:
        """`drafts` by source and `num_drawn` tokens, counted since the start. A sentence when another verdict holds
        than at the last look, or a first one; None when all is as it was, or too little happened to say."""
        if num_drawn - self._num_drawn < LEAST_DRAWN:
            return None
        self._num_drawn = num_drawn
        recent = {source: self._since(source, count) for source, count in drafts.items()}
        judged = {source: count for source, count in recent.items() if count.proposed >= LEAST_PROPOSED}
        pays = {source: count.seconds > 0 for source, count in judged.items()}
        in_use = sum(count.proposed for count in recent.values()) >= LEAST_PROPOSED
        is_new = in_use is not self._in_use or any(self._pays.get(source) is not good for source, good in pays.items())
        self._in_use = in_use
        self._pays |= pays
        return _sentence(judged, in_use=in_use) if is_new else None

    def _since(self, source: str, now: DraftCount) -> DraftCount:
        before = self._seen.get(source, DraftCount())
        self._seen[source] = DraftCount(now.proposed, now.accepted, now.seconds)
        return DraftCount(
            now.proposed - before.proposed, now.accepted - before.accepted, now.seconds - before.seconds
        )


def _sentence(judged: Mapping[str, DraftCount], *, in_use: bool) -> str:
    good = [_told(source, count) for source, count in judged.items() if count.seconds > 0]
    bad = [_told(source, count) for source, count in judged.items() if count.seconds <= 0]
    if not in_use:
        return "drafts are hardly used at present: what could be guessed is too seldom right to pay for its rows"
    if not judged:
        return "drafts are in use at present, each source too little to say whether it pays"
    if not good:
        return f"drafts do not pay at present: {', '.join(bad)}"
    return f"drafts pay at present: {', '.join(good)}{'; not: ' if bad else ''}{', '.join(bad)}"


def _told(source: str, count: DraftCount) -> str:
    share = f"{count.accepted / count.proposed:.0%} of {count.proposed} tokens right"
    return f"{source} ({share}, {abs(count.seconds):.2g} s {'saved' if count.seconds > 0 else 'lost'})"
