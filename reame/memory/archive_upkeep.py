"""Looking after the archive from outside: listing and forgetting. For `reame archive`."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

from reame.memory.archive_files import segment_files
from reame.memory.archive_segment import open_segment
from reame.memory.block_directory import empty_away, take_away
from reame.memory.folders import folders, opened
from reame.memory.format import Damaged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@frozen(kw_only=True)
class Kept:
    """One segment. `size`: bytes of budget; `age`: seconds since it was last written. A damaged one holds nothing."""

    tokenizer: str
    tag: str
    name: str
    tokens: int
    generations: int
    size: int
    age: float
    is_damaged: bool


@frozen(kw_only=True)
class Dropped:
    """What a deletion took away. `size`: bytes of budget."""

    tokens: int = 0
    generations: int = 0
    size: int = 0


def kept(directory: Path) -> Iterator[Kept]:
    """All segments, in no order. Reads and checks every byte; OSError when there is no reading the directory."""
    now = time.time()
    with suppress(FileNotFoundError), opened(directory) as root:
        for file in segment_files(root):
            if file.is_temporary:
                continue
            tokens = generations = 0
            is_damaged = True
            with suppress(OSError, Damaged), opened(root, file.tokenizer, file.tag) as folder:
                segment = open_segment(folder, file.name)
                tokens, generations, is_damaged = segment.num_tokens, segment.num_generations, file.is_aside
            yield Kept(
                tokenizer=file.tokenizer,
                tag=file.tag,
                name=file.name,
                tokens=0 if is_damaged else tokens,
                generations=0 if is_damaged else generations,
                size=file.charge,
                age=now - file.mtime_ns / 1e9,
                is_damaged=is_damaged,
            )


def drop(directory: Path, tag: str | None) -> Dropped:
    """Delete what a namespace has, by its tag, or all, and what was to be deleted before. OSError when that is
    refused."""
    found = [each for each in kept(directory) if tag in (None, each.tag)]
    with suppress(FileNotFoundError), opened(directory) as root:
        for tokenizer in folders(root):
            take_away(root, tokenizer, *([tag] if tag else []))
        empty_away(root)
    return Dropped(
        tokens=sum(each.tokens for each in found),
        generations=sum(each.generations for each in found),
        size=sum(each.size for each in found),
    )
