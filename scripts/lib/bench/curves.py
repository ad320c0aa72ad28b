"""What the plots show, picked out of a benchmark's JSON. Pure."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@frozen
class Line:
    """One side's curve: at each x the median of the rounds, and their extremes."""

    label: str
    x: tuple[float, ...]
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@frozen
class Mark:
    """One ratio, of our side to a rival: above 1 we are ahead. `is_verdict`: it may be believed."""

    title: str
    rival: str
    middle: float
    low: float
    high: float
    is_verdict: bool


@frozen(kw_only=True)
class Growth:
    """A cost by size, and the exponent of its growth."""

    title: str
    size: str
    unit: str
    slope: float | None
    x: tuple[float, ...]
    y: tuple[float, ...]


def groups(told: Mapping[str, Any]) -> dict[str, list[Growth]]:
    """What `scale` measured, by the first word of its names: one picture each. Empty for other files."""
    out: dict[str, list[Growth]] = {}
    for series in told.get("scale", ()):
        xs, ys = zip(*series["points"], strict=True)
        told_of = {key: series[key] for key in ("title", "size", "unit", "slope")}
        out.setdefault(series["name"].partition("_")[0], []).append(Growth(x=xs, y=ys, **told_of))
    return out


def lines(told: Mapping[str, Any], scenario: str, curve: str) -> list[Line]:
    """Of every side that has this curve, ours first; empty when the scenario was not played."""
    sides = [side for found in told["scenarios"] if found["name"] == scenario for side in found["sides"]]
    rounds = [(side["label"], [made[curve] for made in side["curves"] if curve in made]) for side in sides]
    return [line(label, made) for label, made in rounds if made]


def line(label: str, rounds: Sequence[Sequence[Sequence[float]]]) -> Line:
    """Rounds may lack points (an hour in which nobody came)."""
    values: dict[float, list[float]] = {}
    for points in rounds:
        for x, y in points:
            values.setdefault(x, []).append(y)
    xs = tuple(sorted(values))
    return Line(
        label,
        xs,
        tuple(median(values[x]) for x in xs),
        tuple(min(values[x]) for x in xs),
        tuple(max(values[x]) for x in xs),
    )


def marks(told: Mapping[str, Any]) -> list[Mark]:
    """The ratio of every metric that has one, beside the scenario's first rival that is not Reame itself; of scenarios
    without one, none: what Reame gains over itself is not to be mixed with what it gains over others."""
    out = []
    for scenario in told["scenarios"]:
        rival = next((side for side in scenario["sides"][1:] if side["kind"] in ("llama-server", "url")), None)
        if rival is None:
            continue
        for name, ratio in rival["ratios"].items():
            title = f"{scenario['name']}: {scenario['titles'][name]}"
            out.append(
                Mark(title, rival["label"], ratio["median"], ratio["lowest"], ratio["highest"], ratio["verdict"])
            )
    return out
