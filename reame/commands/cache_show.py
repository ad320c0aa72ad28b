"""`reame cache stats | ls`: how much is kept, of whom, and since when nobody used it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

from reame.commands.cache_work import Kept, closing, print_json
from reame.memory import archive_upkeep, upkeep
from reame.pull_file import bytes_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.memory.upkeep import Entry

PIPE_WIDTH = 200


def show_stats(here: Kept, *, as_json: bool) -> None:
    """Blocks by model and key, then the answers and the archive."""
    with closing(here):
        groups = _groups(list(upkeep.entries(here.blocks)))
        old = here.answers.stats()
        archived = list(archive_upkeep.kept(here.archive))
    blocks = {"bytes": sum(group.size for group in groups), "budget": here.blocks.budget_bytes}
    answers = {"bytes": old.bytes, "budget": here.answers.budget_bytes, "answers": old.answers}
    archive = {
        "bytes": sum(segment.size for segment in archived),
        "budget": here.archive_budget,
        "texts": sum(segment.generations for segment in archived),
        "tokens": sum(segment.tokens for segment in archived),
    }
    if as_json:
        rows = [asdict(group) | {"key": here.names.get(group.namespace)} for group in groups]
        directory = str(here.directory)
        told = {"directory": directory, "blocks": blocks | {"groups": rows}, "answers": answers, "archive": archive}
        print_json(told)
        return
    print(f"{here.directory}")
    if groups:
        _print_table(
            ("Model", "Key", "Blocks>", "Tokens>", "Size>", "Last used>"),
            [
                (g.model, _name(here, g.namespace), str(g.blocks), str(g.tokens), bytes_text(g.size), _ago(g.age))
                for g in groups
            ],
        )
    print(f"blocks of prefixes: {sum(group.blocks for group in groups)}, {_used(blocks)}")
    print(f"old answers: {old.answers}, {_used(answers)}")
    print(f"archive: {archive['texts']} texts, {archive['tokens']} tokens, {_used(archive)}")


def show_entries(here: Kept, *, most: int, as_json: bool) -> None:
    """The blocks, the last used first."""
    entries = sorted(upkeep.entries(here.blocks), key=lambda entry: entry.age)
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    shown = entries[:most] if most > 0 else entries
    if not shown:
        print(f"{here.directory}: no blocks")
        return
    _print_table(
        ("Block", "Model", "Key", "Position>", "Tokens>", "Size>", "Last used>"),
        [
            (e.key, e.model, _name(here, e.namespace), str(e.depth * e.num_tokens), str(e.num_tokens),
             bytes_text(e.size), _ago(e.age))
            for e in shown
        ],
    )  # fmt: skip
    if len(entries) > len(shown):
        print(f"and {len(entries) - len(shown)} more (--most 0 shows all)")


@frozen
class Group:
    """The blocks of one model and namespace. `age`: seconds since the last use of any."""

    model: str
    namespace: str
    blocks: int
    tokens: int
    size: int
    age: float


def _groups(entries: Sequence[Entry]) -> list[Group]:
    groups: dict[tuple[str, str], list[Entry]] = {}
    for entry in entries:
        groups.setdefault((entry.model, entry.namespace), []).append(entry)
    found = [
        Group(*names, len(of), sum(e.num_tokens for e in of), sum(e.size for e in of), min(e.age for e in of))
        for names, of in groups.items()
    ]
    return sorted(found, key=lambda group: group.age)


def _used(of: dict[str, int]) -> str:
    return f"{bytes_text(of['bytes'])} of {bytes_text(of['budget'])}"


def _name(here: Kept, tag: str) -> str:
    return here.names.get(tag, f"#{tag[:8]}") or "-"


def _ago(seconds: float) -> str:
    if seconds < 0:
        return f"pinned for {_span(-seconds)}"
    return f"{_span(seconds)} ago"


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A head that ends with > belongs to numbers."""
    table = Table(box=None, pad_edge=False)
    for head in heads:
        table.add_column(head.rstrip(">"), justify="right" if head.endswith(">") else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False).print(table)
