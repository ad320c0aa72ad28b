"""How costs grow: blocks on disk, tokens in the archive, users at once, tokens of a prompt; with slopes."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen
from rich import box
from rich.table import Table

from bench import scale_disk, scale_load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bench.scale_slope import Series


@frozen(kw_only=True)
class Sizes:
    blocks: tuple[int, ...] = (1_000, 10_000, 100_000)
    archive: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    users: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64)
    prompts: tuple[int, ...] = (1_000, 2_000, 4_000, 8_000, 16_000)


FULL = Sizes()
QUICK = Sizes(
    blocks=(320, 1_000, 3_200),
    archive=(10_000, 100_000, 300_000),
    users=(1, 2, 4, 8),
    prompts=(250, 500, 1_000),
)
PARTS = ("blocks", "archive", "users", "prompts")


def measure(
    parts: Sequence[str], sizes: Sizes, *, model: Path, threads: int, seed: int, tell: Callable[[str], None]
) -> list[Series]:
    """One measurement of each size, in one pass: a slope over many sizes, not a ratio. Raises BenchError."""
    out: list[Series] = []
    with tempfile.TemporaryDirectory(prefix="reame-bench-") as scratch:
        work: Mapping[str, Callable[[], list[Series]]] = {
            "blocks": partial(scale_disk.blocks, sizes.blocks, Path(scratch) / "blocks", seed, tell),
            "archive": partial(scale_disk.archive, sizes.archive, Path(scratch) / "archive", seed, tell),
            "users": partial(scale_load.users, sizes.users, model, threads, seed, tell),
            "prompts": partial(scale_load.prompts, sizes.prompts, model, threads, seed, tell),
        }
        for part in parts:
            out += work[part]()
    return out


def table(found: Sequence[Series]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("what", "cost by size", "grows as size^"):
        drawn.add_column(name)
    for series in found:
        sizes = "  ".join(f"{size:,.0f}: {cost:.3g}" for size, cost in series.points)
        slope = "-" if series.slope is None else f"{series.slope:.2f}"
        drawn.add_row(f"{series.title}, {series.unit} ({series.size})", sizes, slope)
        if series.note:
            drawn.add_row("", series.note, "")
    return drawn


def to_json(found: Sequence[Series], facts: Mapping[str, Any]) -> str:
    told = [{**asdict(series), "slope": series.slope} for series in found]
    return json.dumps({**facts, "scenarios": [], "scale": told}, indent=1) + "\n"
