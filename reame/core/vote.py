"""The Conclave's values: how many candidates and what they vote on (`Conclave`), what one says (`Ballot`), what came of
it (`Verdict`).

Several answers to one prompt are generated side by side, and the one that most of them agree on is given. Candidate 0
is the request as it was asked; the others have seeds of their own and are at least `HEAT` hot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

from attrs import evolve, frozen

if TYPE_CHECKING:
    from reame.core.constraint import Constraint
    from reame.core.request import Sampling

VoteKind = Literal["auto", "number", "choice", "json", "text"]
VOTE_KINDS: tuple[VoteKind, ...] = get_args(VoteKind)

HEAT = 0.7
"""Temperature of the other candidates at least: colder ones say the same again."""
MOST_CANDIDATES = 64


@frozen(kw_only=True)
class Conclave:
    """`margin` None: all candidates at once. Else one answers first, and the others fork from its most uncertain token
    only if the two likeliest ones there had probabilities less than `margin` apart. `early`: stop those who cannot
    change the outcome any more; it changes no answer. `place`: which answer in the order of election, of the `shown`
    ones, is meant, where a request names an old one."""

    size: int
    vote: VoteKind = "auto"
    margin: float | None = None
    early: bool = True
    place: int = 0
    shown: int = 1


@frozen
class Ballot:
    """What an answer says, cut down to what is compared: two say the same when `kind` and `value` are equal.

    `fields` of a JSON object: the path of each leaf (keys and JSON punctuation) and its value in canonical JSON.
    """

    kind: VoteKind
    value: str
    fields: tuple[tuple[str, str], ...] = ()


@frozen
class Group:
    """Candidates that said the same. `answer` is it, shortened where it is long."""

    answer: str
    candidates: tuple[int, ...]


@frozen
class Agreed:
    """So many of the candidates had the elected one's value in a field."""

    path: str
    votes: int


@frozen(kw_only=True)
class Verdict:
    """How an answer was elected. `candidates` ran or were to run; `vote` is the kind that decided.

    `tokens` and `ms` were spent on all of them. `tokens_saved` and `ms_saved` are estimates of what the `stopped` ones
    would still have taken. `fields`: only when whole objects had no majority.
    """

    candidates: int
    vote: VoteKind
    elected: int
    agreement: int
    groups: tuple[Group, ...] = ()
    fields: tuple[Agreed, ...] = ()
    stopped: int = 0
    silent: int = 0
    tokens: int = 0
    tokens_saved: int = 0
    ms: float = 0.0
    ms_saved: float = 0.0


@frozen
class Progress:
    """So many of the candidates have answered, and so many of these agree with each other."""

    candidates: int
    answered: int
    agreeing: int


def candidate_sampling(sampling: Sampling, index: int) -> Sampling:
    """Of a candidate, but for its seed: the first as it was asked, the others hot enough to differ."""
    return evolve(sampling, temperature=max(sampling.temperature, HEAT)) if index else sampling


def vote_of(conclave: Conclave, constraint: Constraint | None) -> VoteKind:
    """What is voted on: a constraint says it where the request left it open."""
    if conclave.vote != "auto" or constraint is None:
        return conclave.vote
    if constraint.kind in ("json_object", "json_schema"):
        return "json"
    return "choice" if constraint.kind == "choice" else "auto"
