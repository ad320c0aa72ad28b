"""What `reame cache` does. Apart from `cache` since importing the memory takes longer than showing a help text."""

from __future__ import annotations

import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

from reame.commands.archive_work import own_salt
from reame.config_keys import check_name, load_api_keys
from reame.errors import ConfigError, ReameError
from reame.memory import answers, archive_files, archive_upkeep, block_directory, inbox, upkeep
from reame.memory.answers import AnswerStore
from reame.memory.archive_files import archive_tag
from reame.memory.block_directory import BlockDirectory
from reame.memory.folders import namespace_tag
from reame.pull_file import bytes_text
from reame.runtime.recall import memory_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reame.config import Config
    from reame.memory.upkeep import Entry

PIPE_WIDTH = 200
PATIENCE_S = 60.0
"""Seconds that a running daemon has to forget a key: it looks once a second, and between two of its steps."""


@frozen
class Kept:
    """The memory's directory and what is in it; `names`: the API keys by the tags of their folders."""

    directory: Path
    blocks: BlockDirectory
    answers: AnswerStore
    archive: Path
    salt: bytes
    names: dict[str, str]
    shared: bool


def kept(config: Config) -> Kept:
    """What this configuration's daemon keeps. Nothing is made or opened yet."""
    directory = memory_dir(config)
    memory = config.memory
    return Kept(
        directory,
        BlockDirectory(directory / block_directory.NAME, budget_bytes=memory.disk_mb << 20),
        AnswerStore(directory / answers.NAME, budget_bytes=memory.answers_mb << 20),
        directory / archive_files.NAME,
        own_salt(config),
        _names(config),
        memory.share == "all",
    )


def show_stats(here: Kept, *, as_json: bool) -> None:
    """Blocks by model and key, then the answers."""
    with _closing(here):
        groups = _groups(list(upkeep.entries(here.blocks)))
        old = here.answers.stats()
    sizes = {"blocks": sum(g.size for g in groups), "answers": old.bytes}
    budgets = {"blocks": here.blocks.budget_bytes, "answers": here.answers.budget_bytes}
    if as_json:
        rows = [asdict(group) | {"key": here.names.get(group.namespace)} for group in groups]
        _print_json(
            {
                "directory": str(here.directory),
                "blocks": {"bytes": sizes["blocks"], "budget": budgets["blocks"], "groups": rows},
                "answers": {"bytes": old.bytes, "budget": budgets["answers"], "answers": old.answers},
            }
        )
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
    total = sum(group.blocks for group in groups)
    print(f"blocks of prefixes: {total}, {bytes_text(sizes['blocks'])} of {bytes_text(budgets['blocks'])}")
    print(f"old answers: {old.answers}, {bytes_text(old.bytes)} of {bytes_text(budgets['answers'])}")


def show_entries(here: Kept, *, most: int, as_json: bool) -> None:
    """The blocks, the last used first."""
    entries = sorted(upkeep.entries(here.blocks), key=lambda entry: entry.age)
    if as_json:
        _print_json([asdict(entry) for entry in entries])
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


def verify(here: Kept, *, as_json: bool) -> int:
    """1 when something was damaged."""
    with _closing(here):
        result = upkeep.verify(here.blocks)
        sound, damaged = here.answers.verify()
    if as_json:
        blocks = {"sound": result.blocks, "damaged": [{"file": file, "reason": why} for file, why in result.damaged]}
        _print_json({"blocks": blocks, "answers": {"sound": sound, "damaged": damaged}})
    else:
        for file, why in result.damaged:
            print(f"deleted {file}: {why}")
        print(f"blocks of prefixes: {result.blocks} sound ({bytes_text(result.bytes)}), {len(result.damaged)} damaged")
        print(f"old answers: {sound} sound, {damaged} damaged")
    return int(bool(result.damaged or damaged))


def prune(here: Kept, *, as_json: bool) -> int:
    with _closing(here):
        removed = here.blocks.prune()
        return _say_deleted(removed.blocks, removed.bytes, here.answers.prune(), as_json=as_json)


def clear(here: Kept, *, as_json: bool) -> int:
    with _closing(here):
        removed = upkeep.clear(here.blocks)
        return _say_deleted(removed.blocks, removed.bytes, here.answers.clear(), as_json=as_json)


def forget(here: Kept, key: str, *, as_json: bool) -> int:
    """Of one API key, here and in the daemons that run on this directory; what these write before they hear of it is
    deleted once they have. ConfigError when what is kept belongs to no key."""
    if here.shared:
        raise ConfigError('with memory.share = "all" nothing belongs to one key: reame cache clear deletes everything')
    check_name(key)
    with _closing(here):
        gone = _forget(here, key)
        orders = inbox.order(here.directory, key)
        deaf = inbox.wait_done(orders, patience_s=PATIENCE_S)
        if orders:
            gone = gone.plus(_forget(here, key))
    _say_forgotten(gone, len(orders) - len(deaf), as_json=as_json)
    if deaf:
        processes = ", ".join(map(inbox.pid_of, deaf))
        raise ReameError(f"a running daemon does not answer (process {processes}): what it has in RAM ends with it")
    return 0


@frozen
class Gone:
    """What was deleted of a key."""

    blocks: int
    bytes: int
    answers: int
    texts: int

    def plus(self, other: Gone) -> Gone:
        return Gone(
            self.blocks + other.blocks,
            self.bytes + other.bytes,
            self.answers + other.answers,
            self.texts + other.texts,
        )


def _forget(here: Kept, key: str) -> Gone:
    """On disk."""
    removed = upkeep.forget(here.blocks, key)
    archived = archive_upkeep.drop(here.archive, archive_tag(key, here.salt))
    return Gone(removed.blocks, removed.bytes, here.answers.forget(key), archived.generations)


def _say_forgotten(gone: Gone, daemons: int, *, as_json: bool) -> None:
    if as_json:
        _print_json({"deleted": asdict(gone), "daemons": daemons})
        return
    print(
        f"deleted {gone.blocks} blocks ({bytes_text(gone.bytes)}), {gone.answers} old answers and"
        f" {gone.texts} archived texts"
    )
    if daemons:
        print(f"{daemons} running daemon{'' if daemons == 1 else 's'} forgot it too, live cells included")


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


@contextmanager
def _closing(here: Kept) -> Iterator[None]:
    """A disk that refuses is one line for the person, not a traceback."""
    try:
        yield
    except OSError as error:
        what = error.filename or here.directory
        raise ReameError(f"{what}: {error.strerror or error}") from None
    finally:
        here.answers.close()


def _names(config: Config) -> dict[str, str]:
    """Tags of namespaces and the names of their API keys, as far as the configuration knows them."""
    keys = load_api_keys(config.server.api_keys_file) if config.server.api_keys_file else ()
    return {namespace_tag(name): name for name in ("", *(key.name for key in keys))}


def _name(here: Kept, tag: str) -> str:
    return here.names.get(tag, f"#{tag[:8]}") or "-"


def _say_deleted(blocks: int, size: int, old: int, *, as_json: bool) -> int:
    if as_json:
        _print_json({"deleted": {"blocks": blocks, "bytes": size, "answers": old}})
    else:
        print(f"deleted {blocks} blocks ({bytes_text(size)}) and {old} old answers")
    return 0


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


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
