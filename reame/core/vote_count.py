"""Who is elected by the votes that were cast. Pure.

The answer of more than half of those who vote wins. Without one: of numbers and labels the answer of the most, by the
larger sum of probabilities where several have as many; of JSON the candidate with the most winning fields; of texts the
medoid. When several kinds were voted (`auto`), the kind of the most ballots decides.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.vote import Agreed, Group, VoteKind
from reame.core.vote_text import remoteness

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reame.core.vote import Ballot

_KINDS: tuple[VoteKind, ...] = ("json", "number", "choice", "text")
LONGEST_SHOWN = 200
"""Characters of an answer in a verdict."""


@frozen
class Vote:
    """`length` in tokens. `weight`: the probability of one of its tokens, by the geometric mean."""

    ballot: Ballot
    length: int
    weight: float


Votes = dict[int, Vote]
Said = tuple[str, str]
"""Kind and value of a ballot."""


@frozen
class Outcome:
    """The elected candidate, the groups (the elected one's first, then the bigger ones, of equal ones the more
    probable), and field by field where that was needed. `order`: all who voted, the elected one first; then of each
    group the one that speaks for it, and only then others who said the same."""

    elected: int
    kind: VoteKind
    groups: tuple[Group, ...]
    fields: tuple[Agreed, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def agreement(self) -> int:
        return len(self.groups[0].candidates)


def rank(size: int, index: int, length: int) -> tuple[bool, int, int]:
    """Who speaks for a group of `size` candidates: the lowest. It only grows with `length`."""
    return index > size // 2, length, index


def ranked(size: int, votes: Mapping[int, Vote]) -> Votes:
    """The votes in the order in which candidates speak for others."""
    order = sorted(votes, key=lambda index: rank(size, index, votes[index].length))
    return {index: votes[index] for index in order}


def grouped(votes: Mapping[int, Vote]) -> dict[Said, list[int]]:
    """The candidates that said the same, in the order of `votes`."""
    groups: dict[Said, list[int]] = {}
    for index, vote in votes.items():
        groups.setdefault((vote.ballot.kind, vote.ballot.value), []).append(index)
    return groups


def outcome(size: int, cast: Mapping[int, Vote]) -> Outcome:
    """Of at least one vote of `size` candidates."""
    votes = ranked(size, cast)
    groups = grouped(votes)
    largest = max(groups.values(), key=len)
    if 2 * len(largest) > len(votes):
        return _outcome(votes, largest[0])
    kind = _commonest_kind(votes)
    votes_of_kind = {index: vote for index, vote in votes.items() if vote.ballot.kind == kind}
    if kind == "json":
        elected = _of_most_fields(votes_of_kind)
        return _outcome(votes, elected, _agreed(votes_of_kind, elected))
    if kind == "text":
        return _outcome(votes, _medoid(votes_of_kind))
    return _outcome(votes, max(grouped(votes_of_kind).values(), key=lambda group: _strength(votes, group))[0])


def _outcome(votes: Votes, elected: int, fields: tuple[Agreed, ...] = ()) -> Outcome:
    groups = sorted(grouped(votes).items(), key=lambda group: _strength(votes, group[1]), reverse=True)
    groups.sort(key=lambda group: elected not in group[1])
    shown = tuple(Group(_shortened(value), tuple(sorted(members))) for (_, value), members in groups)
    turns = zip_longest(*(members for _, members in groups))
    others = [index for turn in turns for index in turn if index not in (None, elected)]
    return Outcome(elected, votes[elected].ballot.kind, shown, fields, (elected, *others))


def _shortened(value: str) -> str:
    return value if len(value) <= LONGEST_SHOWN else f"{value[: LONGEST_SHOWN - 1]}…"


def _commonest_kind(votes: Votes) -> VoteKind:
    kinds = [vote.ballot.kind for vote in votes.values()]
    return max(_KINDS, key=kinds.count)


def _strength(votes: Votes, group: Iterable[int]) -> tuple[int, float]:
    """How many, and the sum of their probabilities."""
    weights = [votes[index].weight for index in group]
    return len(weights), sum(sorted(weights))


def _medoid(votes: Votes) -> int:
    far = remoteness({index: vote.ballot.value for index, vote in votes.items()})
    return min(votes, key=lambda index: (far[index], -votes[index].weight))


def _of_most_fields(votes: Votes) -> int:
    """Each field is voted on by itself; elected is who has most of the winning values."""
    groups = grouped(votes)
    held = {index: dict(vote.ballot.fields) for index, vote in votes.items()}
    paths = dict.fromkeys(path for fields in held.values() for path in fields)
    won = {path: _winning(votes, held, path) for path in paths}
    score = {index: sum(fields.get(path) == value for path, value in won.items()) for index, fields in held.items()}
    strength = {index: _strength(votes, group) for group in groups.values() for index in group}
    return max(votes, key=lambda index: (score[index], strength[index]))


def _winning(votes: Votes, held: Mapping[int, Mapping[str, str]], path: str) -> str | None:
    """What most have in a field; None when most do not have it."""
    groups: dict[str | None, list[int]] = {}
    for index, fields in held.items():
        groups.setdefault(fields.get(path), []).append(index)
    return max(groups, key=lambda value: _strength(votes, groups[value]))


def _agreed(votes: Votes, elected: int) -> tuple[Agreed, ...]:
    held = [dict(vote.ballot.fields) for vote in votes.values()]
    return tuple(
        Agreed(path, sum(fields.get(path) == value for fields in held)) for path, value in votes[elected].ballot.fields
    )
