"""Looking after a directory of blocks from outside: listing, verifying, forgetting. For `reame cache`."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.blocks import block_keys
from reame.memory.block_directory import BlockDirectory, Removed, take_away
from reame.memory.folders import Found, folders, namespace_tag, opened, opened_file, read_all, remove, scan
from reame.memory.format import SMALLEST, Damaged, check, payload_of, read_header, tokens_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@frozen(kw_only=True)
class Entry:
    """One block. `size`: bytes of its file; `age`: seconds since it was last used, negative while it is pinned."""

    model: str
    namespace: str
    key: str
    depth: int
    num_tokens: int
    size: int
    age: float


@frozen(kw_only=True)
class Verified:
    """The sound blocks and their bytes; the damaged, which were deleted: path below the directory and the reason."""

    blocks: int
    bytes: int
    damaged: tuple[tuple[str, str], ...]


def entries(directory: BlockDirectory) -> Iterator[Entry]:
    """The blocks whose headers can be read, in no order."""
    now = time.time()
    with suppress(OSError), opened(directory.path) as root:
        for found in scan(root):
            with suppress(OSError, Damaged):
                header = read_header(_read(root, found, SMALLEST))
                yield Entry(
                    model=found.place.model,
                    namespace=found.place.namespace,
                    key=header.key.hex(),
                    depth=header.depth,
                    num_tokens=header.num_tokens,
                    size=found.size,
                    age=now - found.mtime_ns / 1e9,
                )


def verify(directory: BlockDirectory) -> Verified:
    """Read every block and delete the damaged. OSError when there is no reading the directory."""
    blocks = size = 0
    damaged = []
    with suppress(FileNotFoundError), opened(directory.path) as root:
        for found in scan(root):
            if found.is_temporary:
                continue
            try:
                _check(found, _read(root, found, found.size))
            except FileNotFoundError:
                continue
            except (Damaged, OSError) as error:
                damaged.append((str(found.place), getattr(error, "strerror", None) or str(error)))
                remove(root, found.place)
            else:
                blocks, size = blocks + 1, size + found.size
    return Verified(blocks=blocks, bytes=size, damaged=tuple(damaged))


def forget(directory: BlockDirectory, namespace: str) -> Removed:
    """Delete all blocks of a namespace, of every model. OSError when that is refused."""
    return _drop(directory, namespace_tag(namespace))


def clear(directory: BlockDirectory) -> Removed:
    """Delete all blocks. OSError when that is refused."""
    return _drop(directory, None)


def _drop(directory: BlockDirectory, tag: str | None) -> Removed:
    blocks = size = 0
    with suppress(FileNotFoundError), opened(directory.path) as root:
        for model in folders(root):
            below = (model, tag) if tag else (model,)
            for found in scan(root, *below):
                blocks, size = blocks + (not found.is_temporary), size + found.charge
            take_away(root, *below)
    directory.prune()
    return Removed(blocks=blocks, bytes=size)


def _read(root: int, found: Found, size: int) -> bytes:
    with opened(root, *found.place.folders) as folder, opened_file(folder, found.place.name) as (file, _):
        return read_all(file, size)


def _check(found: Found, data: bytes) -> None:
    """Damaged unless the file is one that a look-up could accept under its name."""
    header = check(data)
    tokens = tokens_of(header, data)
    link = header.link or len(tokens)
    if not tokens or len(tokens) % link or block_keys(header.parent, tokens, link)[-1] != header.key:
        raise Damaged("its name does not follow from its tokens")
    if (header.key.hex(), header.fingerprint.hex()[:16]) != (found.place.name[:32], found.place.model):
        raise Damaged("it lies under another name")
    payload_of(header, data)
