"""Medians, ratios of interleaved pairs, and when a ratio may not be printed. Pure."""

from __future__ import annotations

from math import log
from statistics import median
from typing import TYPE_CHECKING, Literal

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

Better = Literal["higher", "lower"]
Answer = Literal["held", "missed", "open"]

FEWEST_PAIRS = 3
"""With fewer pairs the spread says nothing, so there is no verdict."""


@frozen
class Summary:
    """Median and extremes of the values of one metric on one side."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """Of at least one value."""
        return cls(median(values), min(values), max(values))


@frozen
class Ratio:
    """How many times better our side was, from pairs measured right after one another; above 1 we are ahead.

    Lowest and highest of n pairs enclose the true median with probability `1 - 2**(1 - n)`, whatever the distribution
    (order statistics): 75 % for 3 pairs, 94 % for 5, 98 % for 7.
    """

    median: float
    lowest: float
    highest: float
    pairs: int

    @property
    def is_verdict(self) -> bool:
        """Whether the ratio may be printed: its spread is no larger than its distance from 1, so no pair crosses 1.

        Both on the logarithmic scale, on which it does not matter which side is divided by which.
        """
        return self.pairs >= FEWEST_PAIRS and log(self.highest / self.lowest) <= abs(log(self.median))


def compare(ours: Sequence[float], theirs: Sequence[float], better: Better) -> Ratio | None:
    """The ratio of two interleaved series, `ours[i]` and `theirs[i]` a pair. None where a value is not positive."""
    if min(*ours, *theirs) <= 0:
        return None
    pairs = zip(ours, theirs, strict=True)
    ratios = [mine / other if better == "higher" else other / mine for mine, other in pairs]
    return Ratio(median(ratios), min(ratios), max(ratios), len(ratios))


@frozen
class Goal:
    """A bound that an issue set. `of`: on the ratio (at least `bound`), or on our own value (by the metric's sense).

    `models`: it counts only for models whose file name contains this; empty = for all.
    """

    of: Literal["ratio", "value"]
    bound: float
    models: str = ""

    def counts_for(self, model: str) -> bool:
        return self.models in model.lower()


def judge_ratio(goal: Goal, ratio: Ratio) -> Answer:
    """Held or missed only if every pair says so, with enough pairs; anything between is open."""
    return _judge(goal.bound, ratio.lowest, ratio.highest, "higher", enough=ratio.pairs >= FEWEST_PAIRS)


def judge_values(goal: Goal, values: Sequence[float], better: Better) -> Answer:
    """Held or missed only if every run says so, with enough runs; anything between is open."""
    return _judge(goal.bound, min(values), max(values), better, enough=len(values) >= FEWEST_PAIRS)


def _judge(bound: float, lowest: float, highest: float, better: Better, *, enough: bool) -> Answer:
    if not enough:
        return "open"
    worst, best = (lowest, highest) if better == "higher" else (-highest, -lowest)
    bound = bound if better == "higher" else -bound
    if worst >= bound:
        return "held"
    return "missed" if best < bound else "open"
