"""What is kept on disk, and `reame cache verify | prune | clear` of it. Apart from `cache` since importing the memory
takes longer than showing a help text."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from reame.commands.archive_work import own_salt
from reame.config_keys import known_names
from reame.errors import ReameError
from reame.memory import answers, archive_files, archive_upkeep, block_directory, upkeep
from reame.memory.answers import AnswerStore
from reame.memory.block_directory import BlockDirectory
from reame.memory.folders import namespace_tag
from reame.pull_file import bytes_text
from reame.runtime.recall import memory_dir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.config import Config


@frozen
class Kept:
    """The memory's directory and what is in it; `archive_budget`: bytes; `names`: the API keys by the tags of their
    folders."""

    directory: Path
    blocks: BlockDirectory
    answers: AnswerStore
    archive: Path
    archive_budget: int
    salt: bytes
    names: dict[str, str]
    shared: bool


@frozen
class Gone:
    """What was deleted, of one key or of all."""

    blocks: int
    bytes: int
    answers: int
    texts: int

    def __str__(self) -> str:
        blocks = f"{self.blocks} blocks ({bytes_text(self.bytes)})"
        return f"{blocks}, {self.answers} old answers and {self.texts} archived texts"

    @property
    def is_nothing(self) -> bool:
        return self == Gone(0, 0, 0, 0)

    def plus(self, other: Gone) -> Gone:
        return Gone(
            self.blocks + other.blocks,
            self.bytes + other.bytes,
            self.answers + other.answers,
            self.texts + other.texts,
        )


def kept(config: Config) -> Kept:
    """What this configuration's daemon keeps. Nothing is made or opened yet."""
    directory = memory_dir(config)
    memory = config.memory
    return Kept(
        directory,
        BlockDirectory(directory / block_directory.NAME, budget_bytes=memory.disk_mb << 20),
        AnswerStore(directory / answers.NAME, budget_bytes=memory.answers_mb << 20),
        directory / archive_files.NAME,
        memory.archive_mb << 20,
        own_salt(config),
        _names(config),
        memory.share == "all",
    )


def verify(here: Kept, *, as_json: bool) -> int:
    """1 when something was damaged."""
    with closing(here):
        result = upkeep.verify(here.blocks)
        sound, damaged = here.answers.verify()
    if as_json:
        blocks = {"sound": result.blocks, "damaged": [{"file": file, "reason": why} for file, why in result.damaged]}
        print_json({"blocks": blocks, "answers": {"sound": sound, "damaged": damaged}})
    else:
        for file, why in result.damaged:
            print(f"deleted {file}: {why}")
        print(f"blocks of prefixes: {result.blocks} sound ({bytes_text(result.bytes)}), {len(result.damaged)} damaged")
        print(f"old answers: {sound} sound, {damaged} damaged")
    return int(bool(result.damaged or damaged))


def prune(here: Kept, *, as_json: bool) -> int:
    with closing(here):
        removed = here.blocks.prune()
        old = here.answers.prune()
    if as_json:
        print_json({"deleted": {"blocks": removed.blocks, "bytes": removed.bytes, "answers": old}})
    else:
        print(f"deleted {removed.blocks} blocks ({bytes_text(removed.bytes)}) and {old} old answers")
    return 0


def clear(here: Kept, *, as_json: bool) -> int:
    with closing(here):
        removed = upkeep.clear(here.blocks)
        archived = archive_upkeep.drop(here.archive, None)
        gone = Gone(removed.blocks, removed.bytes, here.answers.clear(), archived.generations)
    if as_json:
        print_json({"deleted": asdict(gone)})
    else:
        print(f"deleted {gone}")
    return 0


@contextmanager
def closing(here: Kept) -> Iterator[None]:
    """A disk that refuses is one line for the person, not a traceback."""
    try:
        yield
    except OSError as error:
        what = error.filename or here.directory
        raise ReameError(f"{what}: {error.strerror or error}") from None
    finally:
        here.answers.close()


def _names(config: Config) -> dict[str, str]:
    """Tags of namespaces and the names of their API keys, as far as they are known here."""
    return {namespace_tag(name): name for name in ("", *known_names(config.server.api_keys_file))}


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
