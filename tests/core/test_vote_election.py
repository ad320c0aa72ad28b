"""The election: tables worked by hand, and the proof that its outcome does not depend on timing."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from reame.core.vote import Agreed, Ballot, VoteKind
from reame.core.vote_ballot import ballot
from reame.core.vote_count import LONGEST_SHOWN, Outcome, Vote, outcome
from reame.core.vote_election import Election

if TYPE_CHECKING:
    from random import Random


def vote(value: str, *, length: int = 10, weight: float = 0.5, kind: VoteKind = "number") -> Vote:
    return Vote(Ballot(kind, value), length, weight)


def said(*texts: str | None, kind: VoteKind = "auto") -> Outcome:
    """The outcome of these answers, all of one length."""
    votes = {index: ballot(text, kind) for index, text in enumerate(texts) if text is not None}
    return outcome(len(texts), {index: Vote(found, 10, 0.5) for index, found in votes.items() if found})


def test_most_of_the_numbers() -> None:
    result = said("18 eggs", "The answer is $18.", "It makes 17.", "= 18.0", "20")
    assert (result.elected, result.kind, result.agreement) == (0, "number", 3)
    groups = [(group.answer, group.candidates) for group in result.groups]
    assert groups == [("18", (0, 1, 3)), ("17", (2,)), ("20", (4,))]


def test_the_most_without_a_majority() -> None:
    assert said("1", "2", "3", "2", "4").elected == 1


def test_a_tie_goes_to_the_larger_sum_of_probabilities() -> None:
    cast = {0: vote("1", weight=0.5), 1: vote("2", weight=0.9), 2: vote("1", weight=0.6), 3: vote("2", weight=0.3)}
    assert outcome(4, cast).elected == 1
    cast[0] = vote("1", weight=0.7)
    assert outcome(4, cast).elected == 0


def test_a_tie_of_probabilities_goes_to_the_first() -> None:
    assert outcome(2, {0: vote("1"), 1: vote("2")}).elected == 0


@pytest.mark.parametrize(
    ("lengths", "speaker"),
    [
        ({0: 30, 1: 20, 2: 25, 3: 5, 4: 6}, 1),  # of 0, 1 and 2 the shortest
        ({2: 30, 3: 5, 4: 6}, 2),  # only 2 is among the first three
        ({3: 6, 4: 5}, 4),
        ({0: 7, 1: 7, 2: 7}, 0),
    ],
)
def test_who_speaks_for_a_group(lengths: dict[int, int], speaker: int) -> None:
    assert outcome(5, {index: vote("1", length=length) for index, length in lengths.items()}).elected == speaker


def test_labels() -> None:
    result = said("(B)", "The answer is B", "C", kind="choice")
    assert (result.elected, result.kind, result.agreement) == (0, "choice", 2)


def test_equal_objects() -> None:
    result = said('{"a": 1}', '{"a": 2, "b": 1}', '{"b": 1.0, "a": 2}')
    assert (result.elected, result.kind, result.agreement, result.fields) == (1, "json", 2, ())


def test_field_by_field() -> None:
    """Total 9, vat 1 and the name B have two of three each; only the second candidate has them all."""
    result = said(
        '{"total": 9, "vat": 2, "who": {"name": "A"}}',
        '{"total": 9, "vat": 1, "who": {"name": "B"}}',
        '{"total": 8, "vat": 1, "who": {"name": "B"}}',
    )
    assert (result.elected, result.agreement) == (1, 1)
    assert result.fields == (Agreed("total", 2), Agreed("vat", 2), Agreed("who.name", 2))


def test_a_field_that_most_leave_out() -> None:
    assert said('{"a": 1, "b": 1}', '{"a": 1, "c": 2}', '{"a": 1, "d": 3}', '{"a": 1}').elected == 3


def test_the_medoid_of_texts() -> None:
    sky = "the sky is blue because short waves are scattered by the air more than long ones"
    birds = "birds fly south in the winter and come back in the spring every year"
    result = said(birds, f"{sky} are", f"{sky} indeed", sky)
    assert (result.elected, result.kind, result.agreement) == (3, "text", 1)


def test_several_kinds() -> None:
    """Two of three numbers agree: more than any text, of which there are two."""
    prose = "a long text about something else that has no number in it and no end"
    assert said(prose, f"{prose} either", "7", "8", "7").elected == 2
    assert said(prose, "7", "7", "7", f"{prose} either").elected == 1


def test_who_is_silent_does_not_count() -> None:
    result = said(None, "none", "4", None, "5", kind="number")
    assert (result.elected, result.agreement) == (2, 1)


def test_long_answers_are_shortened() -> None:
    (group,) = said("x" * 1000, kind="text").groups
    assert len(group.answer) == LONGEST_SHOWN


def test_side_by_side_nobody_waits() -> None:
    """Candidates 0 and 1 are still at it when three of five agree."""
    election = Election(5, "number")
    for index in range(5):
        election.grown(index, 13)
    for index, length in ((3, 10), (4, 11)):
        election.voted(index, vote("7", length=length))
        assert not election.decided
    election.voted(2, vote("7", length=12))
    assert election.decided
    assert election.unfinished == [0, 1]
    assert election.outcome() == outcome(5, election.votes)


def test_one_after_the_other_nobody_waits() -> None:
    election = Election(5, "number")
    for index in range(3):
        assert not election.decided
        election.voted(index, vote("7", length=30 - index))
    assert election.decided


def test_who_could_still_speak_is_waited_for() -> None:
    election = Election(3, "number")
    election.voted(2, vote("7"))
    election.voted(0, vote("7", length=20))
    assert not election.decided
    election.grown(1, 20)
    assert election.decided


def test_the_most_that_cannot_be_beaten() -> None:
    election = Election(5, "number")
    election.silent(0)
    election.voted(1, vote("7"))
    election.voted(2, vote("7"))
    election.voted(3, vote("8"))
    election.grown(4, 50)
    assert not election.decided, "8 may still have as many"
    other = Election(6, "number")
    for index, value in enumerate(("1", "1", "1", "2", "3")):
        other.voted(index, vote(value))
    assert other.decided


def test_nobody_votes() -> None:
    election = Election(2, "number")
    election.silent(0)
    assert not election.decided
    election.silent(1)
    assert election.decided
    assert election.outcome() is None
    assert election.num_silent == 2


@frozen
class Candidate:
    """What it will have said in the end (None: nothing), and of how many tokens."""

    text: str | None
    length: int
    weight: float


NUMBERS = ["7", "7", "7", "8", "9", None]
OBJECTS = [json.dumps({"a": a, "b": b}) for a in (1, 2) for b in (1, 2)]
TEXTS = ["one two three four five six", "one two three four five seven", "eight nine", *NUMBERS, *OBJECTS]
KINDS: dict[VoteKind, list[str | None]] = {"number": NUMBERS, "json": [*OBJECTS, None], "text": TEXTS, "auto": TEXTS}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[VoteKind, list[Candidate]]:
    kind = draw(st.sampled_from(sorted(KINDS)))
    candidate = st.builds(
        Candidate, st.sampled_from(KINDS[kind]), st.integers(1, 12), st.sampled_from([0.2, 0.4, 0.5, 0.9])
    )
    return kind, draw(st.lists(candidate, min_size=2, max_size=7))


def cast(kind: VoteKind, candidate: Candidate) -> Vote | None:
    found = None if candidate.text is None else ballot(candidate.text, kind)
    return Vote(found, candidate.length, candidate.weight) if found else None


@given(worlds(), st.randoms(use_true_random=False), st.integers(1, 7))
def test_the_outcome_does_not_depend_on_timing(
    world: tuple[VoteKind, list[Candidate]], random: Random, slots: int
) -> None:
    """At most `slots` run at once, the first come first, each at a pace of its own; all is said, or the election is
    decided before. It is the same as when everybody is heard."""
    kind, candidates = world
    size = len(candidates)
    votes = {index: cast(kind, candidate) for index, candidate in enumerate(candidates)}
    everybody = {index: found for index, found in votes.items() if found}
    election, tokens, waiting = Election(size, kind), dict.fromkeys(range(size), 0), list(range(size))
    running: list[int] = []
    while not election.decided:
        while waiting and len(running) < slots:
            running.append(waiting.pop(0))
        index = random.choice(running)
        tokens[index] += 1
        if tokens[index] < candidates[index].length:
            election.grown(index, tokens[index])
            continue
        running.remove(index)
        found = votes[index]
        if found:
            election.voted(index, found)
        else:
            election.silent(index)
    result, full = election.outcome(), outcome(size, everybody) if everybody else None
    assert (result and result.elected) == (full and full.elected)


@given(worlds())
def test_side_by_side_a_majority_ends_it_at_once(world: tuple[VoteKind, list[Candidate]]) -> None:
    """In lockstep: at the latest in the step after more than half of all candidates have said the same."""
    kind, candidates = world
    size, election = len(candidates), Election(len(candidates), kind)
    for step in range(1, 14):
        had_majority = 2 * election.agreeing > size
        for index in election.unfinished:
            if candidates[index].length == step:
                found = cast(kind, candidates[index])
                election.voted(index, found) if found else election.silent(index)
            else:
                election.grown(index, step)
        if had_majority:
            assert election.decided
            return


def test_numbers_are_not_decided_early_where_others_call() -> None:
    """Which kind counts is known when all have spoken: three calls, then 5, 7 and 9."""
    election = Election(6, "number")
    for index in range(3):
        election.voted(index, vote("look()", kind="json"))
    for index, value in enumerate(("5", "7"), 3):
        election.voted(index, vote(value))
        assert not election.decided
    election.voted(5, vote("9"))
    assert election.decided
    early = election.outcome()
    assert early is not None
    assert early == outcome(6, election.votes)
