"""The file of one block: a header, the token ids, the engine's state for them, and a checksum over all of it.

Little-endian; 96 bytes and 4 for each token around the payload. No pickle, nothing that is run. The checksum is for
accidents (torn writes, rotten disks); against people there are the directory's permissions.
"""

from __future__ import annotations

import struct

import numpy as np
import zstandard
from attrs import frozen
from xxhash import xxh3_128_digest

from reame.core.blocks import Block

MAGIC = b"ReKV"
VERSION = 1
RAW, ZSTD, PLANES = 0, 1, 2
"""Codecs: as it is; zstd; of 2-byte elements all low bytes as they are, then all high bytes in zstd."""
LEVEL = 1
WORTH = 0.98
"""Packed bytes must be at most this share of the plain ones. q8_0 cells give 0.97 of the bare keys and values, headers
included, for 12 us a token of unpacking; f16 cells give 0.86 in planes."""
SAMPLE = 32 << 10
"""Bytes, from eight places, that are tried first, so that what does not pack costs no time."""

_HEADER = struct.Struct("<4sBBHIIQQ16s16s16s")
_CHECKSUM_BYTES = 16
SMALLEST = _HEADER.size + _CHECKSUM_BYTES


class Damaged(Exception):
    """A file that is not what its name says; the text says in what way."""


class Foreign(Damaged):
    """Sound, but of another model, setting or version."""


@frozen
class Header:
    """What a file says about its block. Sizes in bytes: of the state, and of what stands for it in the file."""

    codec: int
    depth: int
    num_tokens: int
    size: int
    stored_size: int
    fingerprint: bytes
    key: bytes
    parent: bytes
    link: int = 0
    """See `Block.link`."""

    @property
    def payload_start(self) -> int:
        return _HEADER.size + 4 * self.num_tokens

    @property
    def file_size(self) -> int:
        return self.payload_start + self.stored_size + _CHECKSUM_BYTES


def encode(block: Block, *, fingerprint: bytes, element_bytes: int = 1) -> bytes:
    """The bytes of the block's file. `fingerprint` is 16 bytes; `element_bytes` 2 says that the payload is f16."""
    codec, stored = _pack(block.payload, element_bytes)
    header = _HEADER.pack(
        MAGIC, VERSION, codec, block.link, block.depth, len(block.tokens), len(block.payload), len(stored),
        fingerprint, block.key, block.parent,
    )  # fmt: skip
    body = b"".join((header, _tokens_bytes(block.tokens), stored))
    return body + xxh3_128_digest(body)


def decode(data: bytes, *, fingerprint: bytes, key: bytes, tokens: tuple[int, ...]) -> Block:
    """The block in a file's bytes, which must be the one of this name and these tokens. Raises Damaged."""
    header = check(data)
    if header.fingerprint != fingerprint:
        raise Foreign("of another model or setting")
    if header.key != key:
        raise Damaged("another block's name inside")
    if data[_HEADER.size : header.payload_start] != _tokens_bytes(tokens):
        raise Damaged("other tokens of the same hash")
    return Block(key, header.parent, header.depth, tokens, payload_of(header, data), header.link)


def check(data: bytes) -> Header:
    """The header of a file that is whole, or Damaged."""
    header = read_header(data)
    if header.file_size != len(data):
        raise Damaged(f"{len(data)} bytes long, not {header.file_size}")
    if xxh3_128_digest(memoryview(data)[:-_CHECKSUM_BYTES]) != data[-_CHECKSUM_BYTES:]:
        raise Damaged("the checksum is wrong")
    return header


def read_header(data: bytes) -> Header:
    """What the first bytes of a file say, believed without proof; Damaged when they are not those of a block."""
    if len(data) < SMALLEST:
        raise Damaged(f"only {len(data)} bytes long")
    magic, version, codec, link, depth, num_tokens, size, stored, fingerprint, key, parent = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise Damaged("not a block's file")
    if version != VERSION or codec not in (RAW, ZSTD, PLANES):
        raise Foreign(f"version {version}, codec {codec}")
    return Header(codec, depth, num_tokens, size, stored, fingerprint, key, parent, link)


def tokens_of(header: Header, data: bytes) -> tuple[int, ...]:
    return struct.unpack_from(f"<{header.num_tokens}I", data, _HEADER.size)


def _tokens_bytes(tokens: tuple[int, ...]) -> bytes:
    return struct.pack(f"<{len(tokens)}I", *tokens)


def _pack(payload: bytes, element_bytes: int) -> tuple[int, bytes]:
    """The codec that pays, and the payload in it."""
    if element_bytes == 2 and len(payload) % 2 == 0:
        codec, plain, packed = PLANES, payload[0::2], payload[1::2]
    else:
        codec, plain, packed = ZSTD, b"", payload
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    enough = WORTH * len(payload) - len(plain)
    sample = packed
    if len(packed) > SAMPLE:
        sample = b"".join(packed[at : at + SAMPLE // 8] for at in range(0, len(packed) - 8, len(packed) // 8))
    if len(compressor.compress(sample)) * len(packed) <= enough * len(sample):
        stored = plain + compressor.compress(packed)
        if len(stored) <= WORTH * len(payload):
            return codec, stored
    return RAW, payload


def payload_of(header: Header, data: bytes) -> bytes:
    """The engine's state out of a file that `check` has accepted. Damaged when it does not unpack."""
    stored = memoryview(data)[header.payload_start : header.payload_start + header.stored_size]
    plain_size, odd = divmod(header.size, 2) if header.codec == PLANES else (0, 0)
    if odd:
        raise Damaged("planes of an odd number of bytes")
    payload = bytes(stored) if header.codec == RAW else _unzstd(stored[plain_size:], header.size - plain_size)
    if header.codec == PLANES:
        pairs = np.empty((plain_size, 2), np.uint8)
        pairs[:, 0] = np.frombuffer(stored[:plain_size], np.uint8)
        pairs[:, 1] = np.frombuffer(payload, np.uint8)
        payload = pairs.tobytes()
    if len(payload) != header.size:
        raise Damaged("a payload of another size")
    return payload


def _unzstd(packed: memoryview, size: int) -> bytes:
    try:
        if zstandard.frame_content_size(packed) != size:
            raise Damaged("packed bytes of another size")
        return zstandard.ZstdDecompressor().decompress(packed)
    except (zstandard.ZstdError, MemoryError) as error:
        raise Damaged(f"cannot be unpacked: {error}") from None
