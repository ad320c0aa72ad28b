"""What the tests of the memory share: chains of blocks with payloads that tell them apart."""

from __future__ import annotations

from hashlib import shake_128
from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.blocks import Block, block_keys, root_key
from reame.memory.block_store import BlockStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

FINGERPRINT = bytes(range(16))
SIZE = 4
"""Tokens a block."""
ROOMY = 1 << 30


@frozen
class Chain:
    """The first blocks of one prompt of one namespace."""

    tokens: tuple[int, ...]
    namespace: str
    blocks: tuple[Block, ...]

    @property
    def keys(self) -> list[bytes]:
        return [block.key for block in self.blocks]

    def load(self, store: BlockStore, first: int = 0) -> list[Block]:
        return store.load(self.keys, self.tokens, block_tokens=SIZE, namespace=self.namespace, first=first)

    def store(self, store: BlockStore) -> list[bool]:
        return [store.store(block, namespace=self.namespace) for block in self.blocks]

    def has(self, store: BlockStore) -> int:
        return store.has(self.keys, namespace=self.namespace)


def chain(length: int, *, seed: int = 0, namespace: str = "", payload: int = 1000) -> Chain:
    """A chain of `length` blocks that shares no block with one of another seed. Payloads do not compress."""
    tokens = tuple(1000 * seed + position for position in range(length * SIZE))
    root = root_key(FINGERPRINT, namespace)
    keys = [root, *block_keys(root, tokens, SIZE)]
    return Chain(
        tokens,
        namespace,
        tuple(
            Block(keys[i + 1], keys[i], i, tokens[i * SIZE : (i + 1) * SIZE], shake_128(keys[i + 1]).digest(payload))
            for i in range(length)
        ),
    )


def new_store(directory: Path, budget: int = ROOMY, *, clock: Callable[[], float] = lambda: 0.0) -> BlockStore:
    return BlockStore(directory, fingerprint=FINGERPRINT, budget_bytes=budget, clock=clock)


def block_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*/*/*/*.kv"))


def file_of(directory: Path, block: Block) -> Path:
    (file,) = directory.glob(f"*/*/*/{block.key.hex()}.kv")
    return file


def total_bytes(directory: Path) -> int:
    """As `du -sb` counts, but for the directory itself: apparent sizes, folders too."""
    return sum(path.lstat().st_size for path in directory.rglob("*"))


def payloads(blocks: Iterable[Block]) -> list[bytes]:
    return [block.payload for block in blocks]
