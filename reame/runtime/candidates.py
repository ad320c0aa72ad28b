"""The candidates of one prompt: what they have said, who of them votes, and what is told of the elected one. No I/O."""

from __future__ import annotations

from statistics import fmean, pstdev
from typing import TYPE_CHECKING

from attrs import evolve

from reame.core.draft import DraftCount
from reame.core.events import Delta, Finish, Usage
from reame.core.vote import Progress, Verdict
from reame.core.vote_ballot import ballot
from reame.core.vote_calls import calls_ballot
from reame.core.vote_count import Outcome, Vote
from reame.core.vote_election import Election
from reame.core.vote_fork import confidence, least_certain
from reame.runtime.candidate import Candidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from reame.core.request import Request
    from reame.core.vote import Ballot, Conclave, VoteKind


class Candidates:
    """`is_over` when the outcome is fixed. Who is still at it then is to be stopped (`stop`).

    `wave` of them begin, the others when these cannot decide; all at once where nobody is to be stopped.
    """

    def __init__(self, requests: Iterable[Request], conclave: Conclave, kind: VoteKind, *, wave: int) -> None:
        self.candidates = [Candidate(request) for request in requests]
        self.stopped: list[int] = []
        self._behind = list(range(wave, conclave.size)) if conclave.early else []
        self._held = [] if conclave.margin is not None else self._behind
        self._conclave = conclave
        self._kind = kind
        self._alone = conclave.margin is not None
        self._election = Election(1 if self._alone else conclave.size, kind)

    @property
    def is_over(self) -> bool:
        return self._election.decided if self._conclave.early else not self._election.unfinished

    @property
    def running(self) -> list[int]:
        """Those to be heard."""
        absent = {*self.stopped, *self._held}
        return [index for index in self._election.unfinished if index not in absent]

    @property
    def holds(self) -> bool:
        """Some are not asked yet."""
        return bool(self._held)

    @property
    def has_failures(self) -> bool:
        """Somebody failed, so another time the outcome may be another one."""
        return any(candidate.finish is not None and candidate.finish.error is not None for candidate in self.candidates)

    @property
    def progress(self) -> Progress:
        size = self._election.size
        return Progress(size, size - len(self._election.unfinished), self._election.agreeing)

    @property
    def fates(self) -> dict[str, int]:
        """What became of those that were heard or stopped."""
        election = self._election
        return {"voted": len(election.votes), "silent": election.num_silent, "stopped": len(self.stopped)}

    @property
    def num_spent(self) -> int:
        return sum(each.num_spent for each in self.candidates)

    @property
    def num_characters(self) -> int:
        return sum(len(text) for candidate in self.candidates for text in candidate.texts)

    def take(self, index: int, event: Delta | Finish) -> list[tuple[int, Request]]:
        """What a running candidate says. Comes back: the requests of those that are to run from now on."""
        candidate = self.candidates[index]
        if isinstance(event, Delta):
            candidate.texts.append(event.text)
            candidate.logprobs += event.logprobs
            self._election.grown(index, len(candidate.logprobs))
            return []
        candidate.finish, candidate.usage = event, event.usage
        forks = self._forks(candidate) if self._alone else []
        if forks:
            self._election = Election(len(self.candidates), self._kind)
            self._held = self._behind
        self._alone = False
        self._cast(index)
        return [fork for fork in forks if fork[0] not in self._held] or self._called()

    def fail(self, index: int, finish: Finish) -> list[tuple[int, Request]]:
        """It is not to be heard any more. Comes back what does from `take`."""
        self.candidates[index].finish = finish
        self._cast(index)
        return self._called()

    def stop(self, index: int, usage: Usage | None) -> None:
        """It was stopped early, after so many tokens."""
        self.candidates[index].usage = usage
        self.stopped.append(index)

    def dismiss(self) -> None:
        """Those that were held back are not needed."""
        self.stopped += self._held
        self._held = []

    def outcome(self) -> Outcome | None:
        """Who is elected; None when nobody voted. Takes milliseconds for long texts without a majority."""
        return self._election.outcome()

    def shown(self, outcome: Outcome | None, number: int) -> list[Candidate]:
        """The elected one and the next `number - 1`: those that voted in the order of election, then those that only
        came to an end, then those that failed."""
        voted = outcome.order if outcome else ()
        rest = sorted((index for index in range(len(self.candidates)) if index not in voted), key=self._is_mute)
        return [self.candidates[index] for index in (*voted, *rest)][:number]

    def finishes(self, outcome: Outcome | None, shown: Sequence[Candidate], *, ms: float) -> list[Finish]:
        """The ends of those that are shown. The first one's has all that was not spent on the others, in `ms`
        milliseconds, and all guesses."""
        ends = [evolve(each.finish, drafts=DraftCount()) for each in shown[1:] if each.finish]
        return [self._finish(outcome, shown, ms=ms), *ends]

    def _finish(self, outcome: Outcome | None, shown: Sequence[Candidate], *, ms: float) -> Finish:
        elected, *others = shown
        assert elected.finish is not None
        heard = [each.finish for each in self.candidates if each.finish and not each.finish.error]
        if not heard:
            return elected.finish
        first = min(heard, key=lambda finish: finish.timings.queued_ms + finish.timings.prefill_ms).timings
        known = [each.usage for each in self.candidates if each.usage and each.usage.completion_tokens]
        drafts = DraftCount()
        for each in heard:
            drafts.add(each.drafts.proposed, each.drafts.accepted, each.drafts.seconds)
        return evolve(
            elected.finish,
            usage=evolve(
                min(known, key=lambda usage: usage.cached_tokens, default=elected.finish.usage),
                completion_tokens=sum(each.num_spent for each in self.candidates if each not in others),
            ),
            timings=evolve(first, decode_ms=max(0.0, ms - first.queued_ms - first.prefill_ms)),
            drafts=drafts,
            verdict=self._verdict(outcome, elected, ms=ms),
        )

    def _is_mute(self, index: int) -> bool:
        finish = self.candidates[index].finish
        return finish is None or finish.error is not None

    def _verdict(self, outcome: Outcome | None, elected: Candidate, *, ms: float) -> Verdict:
        left, pace = self._left()
        return Verdict(
            candidates=self._election.size,
            vote=outcome.kind if outcome else self._kind,
            elected=self.candidates.index(elected),
            agreement=outcome.agreement if outcome else 0,
            groups=outcome.groups if outcome else (),
            fields=outcome.fields if outcome else (),
            stopped=len(self.stopped),
            silent=self._election.num_silent,
            tokens=self.num_spent,
            tokens_saved=round(sum(left)),
            ms=round(ms, 1),
            ms_saved=round(max(left, default=0.0) * pace, 1),
        )

    def _left(self) -> tuple[list[float], float]:
        """Tokens that each stopped one would have taken, and milliseconds a token. Estimated: what it lacks to the mean
        length of those that finished, and at least the standard deviation of these."""
        ends = [each for each in self.candidates if each.finish and not each.finish.error and each.usage]
        lengths = [each.usage.completion_tokens for each in ends if each.usage]
        if not self.stopped or not lengths:
            return [], 0.0
        stopped = [self.candidates[index] for index in self.stopped]
        reached = [each.usage.completion_tokens if each.usage else len(each.shared) for each in stopped]
        times = [each.finish.timings for each in ends if each.finish]
        pace = max(timings.decode_ms for timings in times) / max(1, *lengths)
        return [max(fmean(lengths) - length, pstdev(lengths)) for length in reached], pace

    def _cast(self, index: int) -> None:
        candidate = self.candidates[index]
        assert candidate.finish is not None
        ended = candidate.finish.reason == "stop" and not candidate.finish.error
        found = self._said(candidate) if ended else None
        if found is None or candidate.usage is None:
            self._election.silent(index)
        else:
            weight = confidence(candidate.tokens)
            self._election.voted(index, Vote(found, candidate.usage.completion_tokens, weight))

    def _said(self, candidate: Candidate) -> Ballot | None:
        text, constraint = candidate.text, candidate.request.constraint
        is_label = constraint is not None and constraint.kind == "choice"
        return calls_ballot(text, constraint) or ballot(text, self._kind, is_label=is_label)

    def _called(self) -> list[tuple[int, Request]]:
        """Those held back, once the others cannot decide without them."""
        if self._election.can_do_without(self._held):
            return []
        called, self._held = self._held, []
        return [(index, self.candidates[index].request) for index in called]

    def _forks(self, first: Candidate) -> list[tuple[int, Request]]:
        """The others begin with the first one's tokens up to the least certain, which they draw anew; what was taken
        back from the prompt is not told, so then they begin at the beginning. Of an answer without an end: none."""
        assert self._conclave.margin is not None
        assert first.finish is not None
        place = least_certain(first.logprobs, self._conclave.margin)
        if place is None or first.finish.reason != "stop":
            return []
        if first.request.healed or place <= len(first.request.forced):
            place = 0
        shared = tuple(first.logprobs[:place])
        for other in self.candidates[1:]:
            other.shared = shared
            if shared:
                other.request = evolve(other.request, forced=tuple(token.token for token in shared))
        return list(enumerate((other.request for other in self.candidates[1:]), 1))
