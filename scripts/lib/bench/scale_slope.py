"""How a cost grows with a size: the slope on logarithmic axes. Pure."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

Points = tuple[tuple[float, float], ...]
"""Size and cost."""


@frozen(kw_only=True)
class Series:
    """One cost measured at several sizes. `note`: why it ends early, if it does."""

    name: str
    title: str
    size: str
    unit: str
    points: Points
    note: str = ""

    @property
    def slope(self) -> float | None:
        return slope(self.points)


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """The exponent of growth by least squares: 0 = the same at every size, 1 = in proportion, 2 = with the square.

    None with fewer than three points, or where one is not positive.
    """
    if len(points) < 3 or min(min(point) for point in points) <= 0:
        return None
    xs, ys = ([log(value) for value in column] for column in zip(*points, strict=True))
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread if spread else None
