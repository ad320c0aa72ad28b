"""What was measured, as values. Seconds, bytes and bytes a second; what is missing was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import Factory, frozen

if TYPE_CHECKING:
    from reame.host.contention import Contention

Table = Mapping[int, float]


@frozen(kw_only=True)
class Variant:
    """One way to load the model. `decode`: seconds of a step of one row; `prefill`: of a row in a large step."""

    decode: float
    prefill: float
    anon_bytes: int
    """Memory of its own, beside the pages of the file."""


@frozen(kw_only=True)
class Spin:
    """Seconds of a decode step with one length of spinning, alone and beside a process that never rests."""

    alone: float
    beside: float


@frozen(kw_only=True)
class Lossless:
    """How far log-probabilities move, at most, against the same text computed alone and cold; 0.0: identical."""

    warm: float
    crowd: float
    same_text: bool


@frozen(kw_only=True)
class ModelMeasured:
    """One model on this machine, at the thread counts that turned out best."""

    name: str
    description: str
    size_bytes: int
    context_trained: int
    load_seconds: float
    kv_bytes: int
    """A token in the KV cache."""
    anon_bytes: int
    file_bytes: int
    faults: float
    """Pages read from disk per decoded token."""
    threads: int
    prefill_threads: int
    """Those with which `steps` and what follows was measured: the best, or in bad company the quick choice."""
    decode: Table
    """Seconds of a step of one row, by threads."""
    few: Table
    """Of a step of eight rows, by threads."""
    prefill: Table
    """Seconds a row in a large step, by threads."""
    steps: Table = Factory(dict)
    """T(rows)."""
    save: float | None = None
    restore: float | None = None
    """Seconds a token to take cells out, and to put them back."""
    lossless: Lossless | None = None
    variants: Mapping[str, Variant] = Factory(dict)
    spins: Mapping[int, Spin] = Factory(dict)


@frozen(kw_only=True)
class Measured:
    """All of it. `faults`: what went wrong, in sentences; `skipped`: what there was no time for."""

    seconds: float
    contention: Contention
    """Meanwhile, the doctor's own processes excepted."""
    bandwidth: Table = Factory(dict)
    """Bytes a second read and written by copying, by threads."""
    disk_write: float | None = None
    disk_read: float | None = None
    model: ModelMeasured | None = None
    faults: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


def best_threads(times: Table, *, slack: float = 1.03) -> int:
    """The fewest threads within `slack` of the fastest: the same choice from run to run, and room for others."""
    fastest = min(times.values())
    return min(threads for threads, seconds in times.items() if seconds <= slack * fastest)
