"""When an election is decided although some candidates are still at it. Pure.

The outcome is a function of what all candidates say when they come to their end, and of nothing else: not of who came
first, nor of how far each one was when it was known. `Election.decided` is true only when nothing that the unfinished
ones may still say could change it; then they can be stopped.

Who speaks for a group: among the first N // 2 + 1 candidates its shortest answer, counted in tokens; if none of these
is in it, the shortest of the others. So stopping early needs no patience, neither side by side nor one after the other:
of a majority at least one is among the first N // 2 + 1; side by side, who is still at it is soon longer than who is
done; one after the other, the first N // 2 + 1 are done before anybody can have a majority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.vote_count import Outcome, Vote, grouped, outcome, rank, ranked

if TYPE_CHECKING:
    from collections.abc import Collection

    from reame.core.vote import VoteKind


class Election:
    """Of `size` candidates about `kind`. What it is told may come in any order; after its end nobody is heard again."""

    def __init__(self, size: int, kind: VoteKind) -> None:
        self.size = size
        self.votes: dict[int, Vote] = {}
        self._kind = kind
        self._lengths = dict.fromkeys(range(size), 0)
        self._speaker: tuple[bool, int, int] | None = None

    def grown(self, index: int, num_tokens: int) -> None:
        """Its answer has so many tokens by now, and has not ended."""
        self._lengths[index] = num_tokens

    def voted(self, index: int, vote: Vote) -> None:
        del self._lengths[index]
        self.votes[index] = vote
        self._look()

    def silent(self, index: int) -> None:
        """It failed, was cut, or its answer says nothing about that which is voted on."""
        del self._lengths[index]
        self._look()

    @property
    def unfinished(self) -> list[int]:
        return list(self._lengths)

    @property
    def num_silent(self) -> int:
        return self.size - len(self.votes) - len(self._lengths)

    @property
    def agreeing(self) -> int:
        """Votes of the largest group so far."""
        return max(map(len, grouped(self.votes).values()), default=0)

    @property
    def decided(self) -> bool:
        if not self._lengths:
            return True
        end = self._speaker
        return end is not None and all(rank(self.size, *each) > end for each in self._lengths.items())

    def can_do_without(self, absent: Collection[int]) -> bool:
        """Whether those at it, if all say what most said so far, have a majority, whatever the `absent` ones would
        say. Yes when nobody is absent, or all is decided."""
        if not absent or self.decided:
            return True
        num_open = len(self._lengths) - len(absent)
        return num_open > 0 and 2 * (self.agreeing + num_open) > len(self.votes) + len(self._lengths)

    def outcome(self) -> Outcome | None:
        """Once it is decided; None when nobody voted. Long texts without a majority take milliseconds."""
        return outcome(self.size, self.votes) if self.votes else None

    def _look(self) -> None:
        """Who would speak for the answer that can no longer be beaten, if there is one."""
        groups = sorted(grouped(ranked(self.size, self.votes)).values(), key=len, reverse=True)
        num_open = len(self._lengths)
        most, second = (len(groups[0]) if groups else 0), (len(groups[1]) if len(groups) > 1 else 0)
        has_majority = 2 * most > len(self.votes) + num_open
        is_one_kind = len({vote.ballot.kind for vote in self.votes.values()}) <= 1  # else the kinds are counted first
        has_most = self._kind in ("number", "choice") and is_one_kind and most > second + num_open
        if has_majority or has_most:
            self._speaker = rank(self.size, groups[0][0], self.votes[groups[0][0]].length)
