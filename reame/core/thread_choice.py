"""How many threads serve best right now, judged by step times alone: fewer while others want the CPUs, else all.

All threads of a step meet at barriers hundreds of times, so one that a neighbour holds up holds up all: with a thread
less the step is slower and steady. Whether that is worth it differs: under a quota it is many times faster, beside a
busy process and with a short spin it can be slower. Nor can it be seen from the steps with fewer threads that the
neighbour has left: they take as long as before. So nothing is concluded and everything is tried: another number runs
for half a second, against the steps just before, and stays if it is clearly faster.

After a pause more are tried at once, against what steps took undisturbed: a neighbour that was there may be gone.

Tries are paid from a budget: one that lost 0.2 s is repeated after four (`BUDGET`), and after `MOST_WAIT_S` in any
case, so that the way back is never longer. Fewer threads are tried only while steps take longer than they could take
with fewer. The caller feeds `observe` and sets `threads`. Pure: the time is that of the steps.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

from attrs import Factory, define

SPAN_S, SPAN_STEPS = 1.0, 8
"""The steps before a try, against which it is judged, take at least so long: a burst passes."""
TRY_S, TRY_STEPS = 0.5, 8
"""The same for the steps of a try; it ends sooner when it can no longer win."""
LESS, MORE = 0.9, 0.97
"""Share of the time before that steps with fewer threads, and with more, may take to be kept."""
SLOW = 1.3
"""Times the usual length: from here on fewer threads may be faster, when nothing better is known of them."""
BUDGET = 0.05
"""Share of the time that tries may lose."""
LEAST_WAIT_S, MOST_WAIT_S = 2.0, 10.0
"""Between two tries of the same."""
PRESSED = 0.3
"""CPU pressure (the share of time in which somebody waits) above which more threads are tried as seldom as can be."""
GAP_S = 5.0
"""Without a step for so long, what was before says nothing about now."""
_FORGET = 0.02
"""How fast the usual length follows steps that are longer: contexts grow. Shorter ones count at once."""
_FOREIGN = 4.0
"""A try gives up when steps of a kind that nothing is known of took so many times its length."""


class Change(Enum):
    """What became of the number of threads; in words where people should know."""

    TRIED = ""
    RETURNED = "the try is over, and they were no faster"
    LOWERED = "fewer are faster at present, others want the CPUs"
    RAISED = "more are faster again"


@define
class _Steps:
    """The last steps with one number of threads, as many as make the span. `usual`: what they take undisturbed."""

    steps: deque[tuple[int, float, float]] = Factory(deque)
    seconds: float = 0.0
    usual: float = 0.0

    @property
    def is_span(self) -> bool:
        return len(self.steps) >= SPAN_STEPS and self.seconds >= SPAN_S

    @property
    def slowness(self) -> float:
        return self.seconds / self.usual

    def add(self, kind: int, seconds: float, usual: float) -> None:
        self.steps.append((kind, seconds, usual))
        self.seconds, self.usual = self.seconds + seconds, self.usual + usual
        while len(self.steps) > SPAN_STEPS and self.seconds - self.steps[0][1] >= SPAN_S:
            _, first, first_usual = self.steps.popleft()
            self.seconds, self.usual = self.seconds - first, self.usual - first_usual

    def means(self) -> dict[int, float]:
        """Seconds of a step, by kind."""
        times: dict[int, list[float]] = {}
        for kind, seconds, _ in self.steps:
            times.setdefault(kind, []).append(seconds)
        return {kind: sum(found) / len(found) for kind, found in times.items()}


@define(kw_only=True)
class _Try:
    """Another number of threads. `means` and `slowness` are those of the steps before it."""

    by: int
    means: dict[int, float]
    slowness: float
    wanted: float
    """Seconds that the steps to judge it by would have taken before."""
    allowed: float
    """Share of it that they may take."""
    num: int = 0
    seconds: float = 0.0
    before: float = 0.0
    """What the steps so far would have taken before."""
    foreign: float = 0.0

    @property
    def is_over(self) -> bool:
        return (
            (self.num >= TRY_STEPS and self.before >= self.wanted)
            or self.seconds > self.allowed * max(self.wanted, self.before)
            or self.foreign > _FOREIGN * self.wanted
        )

    @property
    def has_won(self) -> bool:
        return self.num >= TRY_STEPS and self.before >= self.wanted and self.seconds <= self.allowed * self.before


class ThreadChoice:
    """Between 1 and `most` threads, `most` being the configured or measured number. Owner: the tuner."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.settled = most
        """Without the try that may be under way."""
        self._stride = max(1, most // 8)
        self._usual: dict[tuple[int, int], float] = {}
        self._floor: dict[int, float] = {}
        """Number of threads -> the least that steps with it took, in usual steps of the number above."""
        self._recent = _Steps()
        self._try: _Try | None = None
        self._not_before = {-1: 0.0, 1: 0.0}
        """Sign of a try -> when it may be made."""
        self._last = 0.0

    @property
    def threads(self) -> int:
        """To be set."""
        return self.settled + (self._try.by if self._try else 0)

    @property
    def is_trying(self) -> bool:
        return self._try is not None

    def observe(self, kind: int, seconds: float, *, at: float, pressure: float = 0.0) -> Change | None:
        """A step with `threads` ended `at` this time and took so long, in seconds. What changed, if anything did.
        `pressure`: of the CPU, 0 to 1; 0 when it is not known.

        `kind` is one number for steps that take as long when nothing holds them up (`StepTime.kind`): only these are
        compared.
        """
        if self.most == 1:
            return None
        gap, self._last = at - seconds - self._last, at
        if gap > GAP_S:
            self._recent = _Steps()
        usual = self._learn(kind, seconds)
        if self._try is not None:
            return self._follow(self._try, kind, seconds, at=at, pressure=pressure, is_stale=gap > GAP_S)
        self._recent.add(kind, seconds, usual)
        if gap > GAP_S and self.settled < self.most:
            self._begin(self._more, {}, slowness=1.0, each=usual)
            return Change.TRIED
        if by := self._worth_a_try(at):
            recent = self._recent
            self._begin(by, recent.means(), slowness=recent.slowness, each=recent.seconds / len(recent.steps))
            return Change.TRIED
        return None

    def _learn(self, kind: int, seconds: float) -> float:
        key = (self.threads, kind)
        usual = self._usual.get(key, seconds)
        self._usual[key] = usual = min(seconds, usual + _FORGET * (min(seconds, SLOW * usual) - usual))
        return usual

    def _worth_a_try(self, at: float) -> int:
        """By how many threads; 0: nothing is."""
        if not self._recent.is_span:
            return 0
        fewer = min(self._stride, self.settled - 1)
        if fewer and at >= self._not_before[-1]:
            least = min(self._floor.get(self.settled - fewer, SLOW), self.settled / (self.settled - fewer))
            if self._recent.slowness * LESS > least:
                return -fewer
        return self._more if at >= self._not_before[1] else 0

    @property
    def _more(self) -> int:
        return min(self._stride, self.most - self.settled)

    def _begin(self, by: int, means: dict[int, float], *, slowness: float, each: float) -> None:
        """Steps took `each` so many seconds before, and those of a kind its mean, if it is known."""
        self._try = _Try(
            by=by,
            means=means,
            slowness=slowness,
            wanted=max(TRY_S, TRY_STEPS * each),
            allowed=MORE if by > 0 else LESS,
        )

    def _follow(
        self, trial: _Try, kind: int, seconds: float, *, at: float, pressure: float, is_stale: bool
    ) -> Change | None:
        usual = self._usual.get((self.settled, kind))
        before = trial.means.get(kind) or (usual and usual * trial.slowness)
        if before:
            trial.num, trial.seconds, trial.before = trial.num + 1, trial.seconds + seconds, trial.before + before
        else:
            trial.foreign += seconds
        return self._end(trial, at, pressure) if is_stale or trial.is_over else None

    def _end(self, trial: _Try, at: float, pressure: float) -> Change:
        sign = 1 if trial.by > 0 else -1
        self._try, self._recent = None, _Steps()
        if sign < 0 and trial.before:
            took, number = trial.seconds / (trial.before / trial.slowness), self.settled + trial.by
            self._floor[number] = min(took, self._floor.get(number, took))
        if trial.has_won:
            self.settled += trial.by
            self._not_before = {-1: at + LEAST_WAIT_S, 1: at + LEAST_WAIT_S}
            return Change.RAISED if sign > 0 else Change.LOWERED
        wait = min(MOST_WAIT_S, max(LEAST_WAIT_S, (trial.seconds - trial.before) / BUDGET))
        self._not_before[sign] = at + (MOST_WAIT_S if sign > 0 and pressure > PRESSED else wait)
        return Change.RETURNED
