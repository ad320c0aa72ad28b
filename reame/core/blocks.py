"""Blocks of a prefix and their names: a chain of hashes, so that a name says everything that precedes it too."""

from __future__ import annotations

import hashlib
from struct import pack
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

KEY_BYTES = 16


@frozen
class Block:
    """The engine's state (`payload`, opaque) for `tokens` at positions `start`..`stop`-1, and the names of it and of
    the block before it (of the root, for the first).

    A state that cannot be cut is one block of all tokens before its end, with the name of the last of the blocks of
    `link` tokens that they are otherwise. 0: it is one link of the chain itself.
    """

    key: bytes
    parent: bytes
    depth: int
    tokens: tuple[int, ...]
    payload: bytes
    link: int = 0

    @property
    def start(self) -> int:
        return self.depth * len(self.tokens)

    @property
    def stop(self) -> int:
        return self.start + len(self.tokens)


def root_key(fingerprint: bytes, namespace: str, salt: bytes = b"") -> bytes:
    """The name that all chains of one model and namespace begin with; no other three arguments give the same."""
    hashed = hashlib.blake2b(digest_size=KEY_BYTES, person=b"reame.root.1")
    for part in (fingerprint, namespace.encode(), salt):
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.digest()


def block_keys(root: bytes, tokens: Sequence[int], block_tokens: int) -> list[bytes]:
    """The names of the whole blocks of `tokens`, from the first on."""
    keys, parent = [], root
    for start in range(0, len(tokens) - block_tokens + 1, block_tokens):
        data = pack(f"<{block_tokens}I", *tokens[start : start + block_tokens])
        parent = hashlib.blake2b(data, digest_size=KEY_BYTES, key=parent).digest()
        keys.append(parent)
    return keys
