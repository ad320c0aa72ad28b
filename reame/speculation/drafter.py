"""Drafts compete: every source guesses, every guess is judged by what was drawn, the most promising one is proposed.

To guess takes time, too: 0.3 to 0.5 ms a token, a twentieth of a step of the smallest models. A text whose drafts have
not saved as much is guessed about at every `EVERY`th step only, until they do.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from attrs import Factory, define

from reame.speculation.sources import TAIL_CHARACTERS, LiveText
from reame.speculation.survival import Survival

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from reame.core.draft import Draft
    from reame.core.sequence import Sequence as LiveSequence
    from reame.speculation.sources import Source
    from reame.speculation.survival import Guess


PATIENCE_S = 0.02
"""Seconds of guessing before a text must have saved some."""
SHARE = 0.01
"""Of the time, that guessing about all texts may take though it saves nothing."""
EVERY = 4


class CostlySource(Protocol):
    """Guesses by computing. It decides for itself whether that pays."""

    def guess(self, text: LiveText) -> Guess | None: ...

    def forget(self, text: LiveText) -> None:
        """The text is over."""
        ...


@define(eq=False)
class Trial:
    """A guess whose first `num_seen` tokens came true."""

    guess: Guess
    num_seen: int = 0


@define(eq=False)
class Live:
    """A text, and the guesses about it that are still to be judged: the last of each source, and an older one of it
    that has been right so far (only such a one tells about the later places of a draft)."""

    text: LiveText
    began: float
    fresh: list[Trial] = Factory(list)
    old: dict[str, Trial] = Factory(dict)
    spent: float = 0.0
    """Seconds of guessing."""
    num_rested: int = 0


class Drafter:
    """See `engine.step.Drafter`. Owner: the decode thread.

    Every guess is judged, also one that no step verified: so the table learns about sources that do not pay at the
    moment, at no cost in rows.
    """

    def __init__(
        self,
        piece: Callable[[int], bytes],
        sources: Sequence[Source] = (),
        *,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`clock` in seconds: how long guessing takes. Without one it takes no time."""
        self.survival = Survival()
        self.sources = list(sources)
        self.last_resort: CostlySource | None = None
        """Asked when none of the free sources promises a token."""
        self._piece = piece
        self._clock = clock
        self._live: dict[str, Live] = {}

    def texts(self) -> Iterable[LiveText]:
        """Of all live sequences, the newest first."""
        return (live.text for live in reversed(self._live.values()))

    def propose(self, sequence: LiveSequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        live = self._live.get(sequence.request.id)
        if live is None:
            live = self._begin(sequence)
        else:
            self._judge(live, drawn)
        live.text.hint = hint
        live.text.go_on(drawn, b"".join(map(self._piece, drawn)))
        live.fresh = []
        started = self._clock()
        if self._rests(live, started, saved=sequence.drafts.seconds):
            return None
        best = self._best(live)
        live.spent += self._clock() - started
        return best

    def _rests(self, live: Live, now: float, *, saved: float) -> bool:
        """Whether nothing is guessed this time."""
        share = SHARE * (now - live.began) / len(self._live)
        if live.spent <= PATIENCE_S + max(0.0, saved) + share:
            return False
        live.num_rested = (live.num_rested + 1) % EVERY
        return live.num_rested != 0

    def _best(self, live: Live) -> Draft | None:
        text = live.text
        guesses = [guess for source in self.sources if (guess := source.guess(text))]
        live.fresh = [Trial(guess) for guess in guesses]
        drafts = [draft for guess in _believed(guesses) if (draft := self.survival.draft(guess))]
        best = max(drafts, key=_promise, default=None)
        if self.last_resort is None or (best and _promise(best) >= 1):
            return best
        costly = self.last_resort.guess(text)
        if costly is None:
            return best
        live.fresh.append(Trial(costly))
        return max(best, self.survival.draft(costly), key=lambda draft: _promise(draft) if draft else 0.0)

    def forget(self, request_id: str) -> None:
        live = self._live.pop(request_id, None)
        if live and self.last_resort:
            self.last_resort.forget(live.text)

    def _begin(self, sequence: LiveSequence) -> Live:
        request = sequence.request
        text = LiveText(request.namespace)
        text.index.extend(sequence.tokens)
        text.tail_bytes = b"".join(map(self._piece, sequence.tokens[-TAIL_CHARACTERS // 4 :]))[-TAIL_CHARACTERS:]
        live = self._live[request.id] = Live(text, self._clock())
        return live

    def _judge(self, live: Live, drawn: tuple[int, ...]) -> None:
        for trial in live.fresh:
            if self._goes_on(trial, drawn):
                live.old.setdefault(trial.guess.source, trial)
        # a fresh trial that was just entered has seen these tokens already
        for source, trial in list(live.old.items()):
            if trial not in live.fresh and not self._goes_on(trial, drawn):
                del live.old[source]

    def _goes_on(self, trial: Trial, drawn: tuple[int, ...]) -> bool:
        """Learn from what was drawn. False when the guess was wrong, or is used up."""
        start, tokens = trial.num_seen, trial.guess.tokens
        told = tokens[start : start + len(drawn)]
        right = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(told, drawn, strict=False)))
        failed = right < len(told)
        self.survival.learn(trial.guess, start, right, failed=failed)
        trial.num_seen += right
        return not failed and trial.num_seen < len(tokens)


def _believed(guesses: list[Guess]) -> list[Guess]:
    """Without those that one that is better informed overrules: they know less of what may fail, and would promise
    more."""
    overruled = {(token,) for guess in guesses for token in guess.overrules}
    return [guess for guess in guesses if guess.overrules or guess.tokens[:1] not in overruled]


def _promise(draft: Draft) -> float:
    """Tokens that it is expected to get right."""
    return sum(draft.survivals)
