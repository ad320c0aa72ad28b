"""The bytes of a block's file: small, back again as they were, and refused when one of them is another."""

from __future__ import annotations

import struct

import pytest
import zstandard
from attrs import evolve
from chains import FINGERPRINT, SIZE, chain
from hypothesis import given, settings
from hypothesis import strategies as st
from xxhash import xxh3_128_digest

from reame.core.blocks import Block
from reame.memory.format import PLANES, RAW, VERSION, ZSTD, Damaged, Foreign, check, decode, encode, read_header

BLOCK = chain(3, payload=200).blocks[2]
FILE = encode(BLOCK, fingerprint=FINGERPRINT)


def read(data: bytes, block: Block = BLOCK) -> Block:
    return decode(data, fingerprint=FINGERPRINT, key=block.key, tokens=block.tokens)


def resigned(data: bytes) -> bytes:
    """These bytes with a checksum that fits: what somebody would write on purpose."""
    return data[:-16] + xxh3_128_digest(data[:-16])


@given(
    payload=st.binary(max_size=300) | st.binary(max_size=9).map(lambda part: part * 20_000),
    tokens=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40),
    depth=st.integers(0, 2**32 - 1),
    element_bytes=st.sampled_from([1, 2]),
)
@settings(deadline=None)
def test_what_was_written_is_read(payload: bytes, tokens: list[int], depth: int, element_bytes: int) -> None:
    block = Block(b"k" * 16, b"p" * 16, depth, tuple(tokens), payload)
    data = encode(block, fingerprint=FINGERPRINT, element_bytes=element_bytes)
    assert read(data, block) == block
    assert len(data) <= len(payload) + 96 + 4 * len(tokens)


def test_cells_that_do_not_pack_stay_as_they_are() -> None:
    data = encode(evolve(BLOCK, payload=BLOCK.payload * 1), fingerprint=FINGERPRINT)
    assert read_header(data).codec == RAW
    assert len(data) == 200 + 96 + 4 * SIZE


def test_cells_that_pack_are_packed_half_floats_in_planes() -> None:
    even = evolve(BLOCK, payload=bytes(100_000))
    packed = encode(even, fingerprint=FINGERPRINT)
    assert read_header(packed).codec == ZSTD
    assert len(packed) < 300
    noise = chain(1, payload=100_000).blocks[0].payload
    halves = b"".join(bytes((low, 0x3C)) for low in noise)  # f16 between 1 and 2: noise in the low bytes only
    planes = encode(evolve(BLOCK, payload=halves), fingerprint=FINGERPRINT, element_bytes=2)
    assert read_header(planes).codec == PLANES
    assert 100_000 < len(planes) < 100_300
    assert read(planes).payload == halves
    odd = encode(evolve(BLOCK, payload=halves + b"!"), fingerprint=FINGERPRINT, element_bytes=2)
    assert read(odd).payload == halves + b"!"


def test_every_shorter_file_is_refused() -> None:
    for length in range(len(FILE)):
        with pytest.raises(Damaged):
            read(FILE[:length])
    with pytest.raises(Damaged):
        read(FILE + b"\0")


def test_every_flipped_bit_is_noticed() -> None:
    for position in range(len(FILE)):
        for bit in range(8):
            data = bytearray(FILE)
            data[position] ^= 1 << bit
            with pytest.raises(Damaged):
                read(bytes(data))


@given(st.binary(max_size=400))
@settings(deadline=None)
def test_any_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(Damaged):
        check(data)


def test_another_model_key_or_prompt_is_refused() -> None:
    with pytest.raises(Foreign, match="another model"):
        decode(FILE, fingerprint=bytes(16), key=BLOCK.key, tokens=BLOCK.tokens)
    with pytest.raises(Damaged, match="another block's name"):
        decode(FILE, fingerprint=FINGERPRINT, key=BLOCK.parent, tokens=BLOCK.tokens)
    for tokens in ((), (*BLOCK.tokens[:-1], 0), BLOCK.tokens[:-1], (*BLOCK.tokens, 0)):
        with pytest.raises(Damaged, match="other tokens"):
            decode(FILE, fingerprint=FINGERPRINT, key=BLOCK.key, tokens=tokens)


@pytest.mark.parametrize(
    ("offset", "value", "kind"),
    [
        (4, struct.pack("<B", VERSION + 1), Foreign),
        (5, struct.pack("<B", 77), Foreign),
        (5, struct.pack("<B", ZSTD), Damaged),
        (5, struct.pack("<B", PLANES), Damaged),
        (12, struct.pack("<I", 2**32 - 1), Damaged),
        (16, struct.pack("<Q", 2**63), Damaged),
        (24, struct.pack("<Q", 2**64 - 1), Damaged),
    ],
)
def test_a_lie_with_a_fitting_checksum_is_refused(offset: int, value: bytes, kind: type[Damaged]) -> None:
    data = bytearray(FILE)
    data[offset : offset + len(value)] = value
    with pytest.raises(kind):
        read(resigned(bytes(data)))


@pytest.mark.parametrize("codec", [ZSTD, PLANES])
@pytest.mark.parametrize("size", [0, 199, 200, 201, 2**40])
def test_packed_bytes_of_another_size_are_refused_before_they_are_unpacked(codec: int, size: int) -> None:
    """The frame says 20 MB: nothing as large may be made of it."""
    frame = zstandard.ZstdCompressor().compress(bytes(20_000_000))
    header = struct.pack("<4sBBHIIQQ", b"ReKV", VERSION, codec, 0, BLOCK.depth, SIZE, size, len(frame))
    names = FINGERPRINT + BLOCK.key + BLOCK.parent
    tokens = struct.pack(f"<{SIZE}I", *BLOCK.tokens)
    with pytest.raises(Damaged, match=r"another size|cannot be unpacked|odd number"):
        read(resigned(header + names + tokens + frame + bytes(16)))


def test_planes_of_an_odd_number_of_bytes_are_refused() -> None:
    stored = bytes(100) + zstandard.ZstdCompressor().compress(bytes(101))
    header = struct.pack("<4sBBHIIQQ", b"ReKV", VERSION, PLANES, 0, BLOCK.depth, SIZE, 201, len(stored))
    tokens = struct.pack(f"<{SIZE}I", *BLOCK.tokens)
    with pytest.raises(Damaged, match="odd number"):
        read(resigned(header + FINGERPRINT + BLOCK.key + BLOCK.parent + tokens + stored + bytes(16)))
