"""What follows from the measured numbers: speed, users, drafts, the disk, other models. Pure arithmetic.

`seconds(steps, rows)` is T(rows): on the line between the measured counts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING

from reame.core.cost import LOAD_SECONDS
from reame.doctor.advice import Fit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reame.catalog import Entry
    from reame.doctor.results import Measured, Table

READING = 5.0
"""Tokens a second at which people read; below it a stream feels slow."""
_SPARE = 0.9
"""Of the RAM may be planned for."""


def seconds(steps: Table, rows: int) -> float:
    """T(rows). KeyError (an empty table) when nothing was measured."""
    known = sorted(steps)
    if rows in steps:
        return steps[rows]
    place = bisect_left(known, rows)
    if place == len(known):
        return steps[known[-1]] * rows / known[-1]
    if not place:
        return steps[known[0]]
    low, high = known[place - 1], known[place]
    return steps[low] + (steps[high] - steps[low]) * (rows - low) / (high - low)


def users(steps: Table, *, most: int, each: float = READING) -> int:
    """How many streams run at once, at most `most`, at `each` tokens a second; 0 when not even one does."""
    return max((rows for rows in range(1, most + 1) if seconds(steps, rows) <= 1 / each), default=0)


def draft_breakeven(steps: Table, length: int) -> float | None:
    """The share of drafted tokens that must be right, each by itself, for drafts of `length` to pay; None: never.

    The step gives 1 + a + a^2 + ... + a^length tokens for the price of T(1 + length).
    """
    price = seconds(steps, 1 + length) / seconds(steps, 1)
    if price >= 1 + length:
        return None
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if sum(middle**i for i in range(length + 1)) >= price else (middle, high)
    return high


def cheapest_draft(steps: Table) -> tuple[int, float]:
    """The draft length, of 1 to 8, whose rows are the cheapest: (length, price in single steps)."""
    prices = ((length, seconds(steps, 1 + length) / seconds(steps, 1)) for length in range(1, 9))
    return min(prices, key=lambda it: it[1] / (1 + it[0]))


def load_seconds(measured: Measured) -> float | None:
    """To read a token's cells from the disk and put them back, without the constant part."""
    model = measured.model
    if model is None or model.restore is None:
        return None
    return model.restore + (model.kv_bytes / measured.disk_read if measured.disk_read else 0.0)


def breakeven_prefix(measured: Measured) -> int | None:
    """Tokens from which a prefix comes sooner from the disk than by computing it; None: never, or not known."""
    model, load = measured.model, load_seconds(measured)
    if model is None or load is None:
        return None
    gain = min(model.prefill.values()) - load
    return 1 + int(LOAD_SECONDS / gain) if gain > 0 else None


def fits(entries: Iterable[Entry], measured: Measured | None, ram: int) -> Iterator[Fit]:
    """Each model of the catalogue on this machine, with `ram` bytes in all."""
    for entry in entries:
        least, most = _speed(entry, measured) if measured else (None, None)
        yield Fit(
            name=entry.name, ram=entry.ram, fits=entry.ram <= _SPARE * ram, least=least, most=most, advice=entry.advice
        )


def _speed(entry: Entry, measured: Measured) -> tuple[float | None, float | None]:
    """Tokens a second, from and to. A token reads all active weights: in proportion to the measured model's time at
    worst (small ones have overhead that large ones have not), at best as fast as memory copies.
    """
    active = entry.size * _active_share(entry.name)
    copying = max(measured.bandwidth.values(), default=0.0) / active
    speeds = [copying] if copying else []
    if measured.model is not None:
        speeds.append(measured.model.size_bytes / min(measured.model.decode.values()) / active)
    elif copying:
        speeds.append(copying / 2)
    return (min(speeds), max(speeds)) if speeds else (None, None)


def _active_share(name: str) -> float:
    """Of a mixture of experts, from its name: 30b-a3b computes 3 of 30."""
    found = re.search(r"(\d+(?:\.\d+)?)b-a(\d+(?:\.\d+)?)b", name)
    return float(found[2]) / float(found[1]) if found else 1.0
