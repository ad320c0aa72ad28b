"""Which prefixes are not to be evicted from the disk for a while. Bound: `MOST_PINS` of them."""

from __future__ import annotations

from collections import deque

from attrs import frozen

MOST_PINS = 64
"""Pins that are applied to blocks still to be written; the oldest is forgotten (what is on disk stays pinned)."""


@frozen
class Pin:
    """The blocks of `tokens` are not to be evicted before `until` (Unix time, seconds)."""

    tokens: tuple[int, ...]
    namespace: str
    until: float


class Pins:
    """Changed by one thread; `until` may be called by any other."""

    def __init__(self) -> None:
        self._pins: deque[Pin] = deque(maxlen=MOST_PINS)

    def add(self, pin: Pin) -> None:
        self._pins.append(pin)

    def drop(self, namespace: str) -> None:
        self._pins = deque((pin for pin in self._pins if pin.namespace != namespace), MOST_PINS)

    def until(self, namespace: str, tokens: tuple[int, ...]) -> float | None:
        """How long a block that ends with the last of `tokens` is pinned."""
        pins = tuple(self._pins)  # at once: others come meanwhile
        ends = [p.until for p in pins if p.namespace == namespace and p.tokens[: len(tokens)] == tokens]
        return max(ends, default=None)
