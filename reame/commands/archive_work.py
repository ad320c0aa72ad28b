"""What `reame archive` does, but for the import. Apart from `archive` since importing the memory takes longer than
showing a help text."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table

from reame.config import Config
from reame.config_keys import check_name, known_names
from reame.errors import ConfigError, ReameError
from reame.memory import archive_files, archive_upkeep
from reame.memory.archive_files import archive_tag
from reame.memory.archive_upkeep import Dropped, Kept
from reame.pull_file import bytes_text
from reame.runtime.recall import memory_dir

PIPE_WIDTH = 200


@frozen
class Here:
    """The archive of this configuration; `names`: its API keys ("" is no key) by the tags of their folders."""

    config: Config
    directory: Path
    names: dict[str, str]

    @property
    def budget_bytes(self) -> int:
        return self.config.memory.archive_mb << 20

    @property
    def is_shared(self) -> bool:
        return self.config.memory.share == "all"

    @property
    def keys(self) -> list[str]:
        return [name for name in self.names.values() if name]


@frozen
class Group:
    """What is kept of one tokenizer and namespace. `age`: seconds since the last of it was written."""

    tokenizer: str
    key: str | None
    tag: str
    segments: int
    damaged: int
    generations: int
    tokens: int
    bytes: int
    age: float


def here(config: Config) -> Here:
    """Nothing is made or opened yet."""
    names = ("", *known_names(config.server.api_keys_file))
    salt = own_salt(config)
    return Here(config, memory_dir(config) / archive_files.NAME, {archive_tag(name, salt): name for name in names})


def own_salt(config: Config) -> bytes:
    """What goes into the names of folders; none was made where nothing is kept."""
    with suppress(OSError):
        return (memory_dir(config) / "salt").read_bytes()
    return b""


def show_stats(of: Here, *, as_json: bool) -> None:
    """By tokenizer and key."""
    with refusals(of):
        groups = _groups(of, list(archive_upkeep.kept(of.directory)))
    size = sum(group.bytes for group in groups)
    if as_json:
        values = [asdict(group) for group in groups]
        _print_json({"directory": str(of.directory), "bytes": size, "budget": of.budget_bytes, "groups": values})
        return
    print(of.directory)
    if groups:
        table = Table(box=None, pad_edge=False)
        for head in ("Tokenizer", "Key", "Texts>", "Tokens>", "Segments>", "Damaged>", "Size>", "Last written>"):
            table.add_column(head.rstrip(">"), justify="right" if head.endswith(">") else "left", no_wrap=True)
        for g in groups:
            key = f"#{g.tag[:8]}" if g.key is None else g.key or "-"
            numbers = (g.generations, g.tokens, g.segments, g.damaged, bytes_text(g.bytes), f"{_span(g.age)} ago")
            table.add_row(g.tokenizer, key, *map(str, numbers))
        Console(width=None if sys.stdout.isatty() else PIPE_WIDTH, highlight=False).print(table)
    texts, tokens = sum(g.generations for g in groups), sum(g.tokens for g in groups)
    print(f"archive: {texts} texts, {tokens} tokens, {bytes_text(size)} of {bytes_text(of.budget_bytes)}")


def clear(of: Here, *, as_json: bool) -> int:
    with refusals(of):
        return _say_deleted(archive_upkeep.drop(of.directory, None), as_json=as_json)


def forget(of: Here, key: str, *, as_json: bool) -> int:
    """Of one API key, also one that is no longer in the file. ConfigError when what is kept belongs to no key."""
    if of.is_shared:
        raise ConfigError('with memory.share = "all" nothing belongs to one key: reame archive clear deletes all')
    check_name(key)
    with refusals(of):
        tag = archive_tag(key, own_salt(of.config))
        return _say_deleted(archive_upkeep.drop(of.directory, tag), as_json=as_json)


@contextmanager
def refusals(of: Here) -> Iterator[None]:
    """A disk that refuses is one line for the person, not a traceback."""
    try:
        yield
    except OSError as error:
        raise ReameError(f"{error.filename or of.directory}: {error.strerror or error}") from None


def _groups(of: Here, found: list[Kept]) -> list[Group]:
    groups: dict[tuple[str, str], list[Kept]] = {}
    for each in found:
        groups.setdefault((each.tokenizer, each.tag), []).append(each)
    made = [
        Group(
            tokenizer=tokenizer,
            key=of.names.get(tag),
            tag=tag,
            segments=len(of_one),
            damaged=sum(each.is_damaged for each in of_one),
            generations=sum(each.generations for each in of_one),
            tokens=sum(each.tokens for each in of_one),
            bytes=sum(each.size for each in of_one),
            age=min(each.age for each in of_one),
        )
        for (tokenizer, tag), of_one in groups.items()
    ]
    return sorted(made, key=lambda group: group.age)


def _say_deleted(gone: Dropped, *, as_json: bool) -> int:
    if as_json:
        _print_json({"deleted": {"texts": gone.generations, "tokens": gone.tokens, "bytes": gone.size}})
    else:
        print(f"deleted {gone.generations} texts, {gone.tokens} tokens ({bytes_text(gone.size)})")
    return 0


def _span(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
