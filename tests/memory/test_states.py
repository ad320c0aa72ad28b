"""States that cannot be cut, on disk: one block of all tokens up to its end, under the name of the last whole block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from chains import FINGERPRINT, SIZE, chain, file_of, new_store

from reame.core.blocks import Block, root_key
from reame.memory import upkeep

if TYPE_CHECKING:
    from pathlib import Path

    from chains import Chain

    from reame.memory.block_store import BlockStore

LINE = chain(6)


def state(line: Chain, number: int) -> Block:
    """At the end of block `number`, counted from 1."""
    payload = bytes([number]) * 5000
    return Block(line.keys[number - 1], root_key(FINGERPRINT, ""), 0, line.tokens[: number * SIZE], payload, SIZE)


def load(store: BlockStore, line: Chain, number: int) -> list[Block]:
    return store.load_state(line.keys[:number], line.tokens, block_tokens=SIZE, namespace="")


@pytest.fixture
def store(tmp_path: Path) -> BlockStore:
    """With the states at the ends of the blocks 2 and 5."""
    store = new_store(tmp_path)
    assert [store.store(state(LINE, number), namespace="") for number in (2, 5)] == [True, True]
    return store


def test_the_longest_that_a_text_begins_with_is_found(store: BlockStore) -> None:
    assert [store.has_state(LINE.keys[:number], namespace="") for number in range(7)] == [0, 0, 2, 2, 2, 5, 5]
    assert [load(store, LINE, number) for number in (1, 4, 6)] == [[], [state(LINE, 2)], [state(LINE, 5)]]
    assert store.has_state(LINE.keys, namespace="another") == 0
    counts = store.stats()
    assert (counts.hits, counts.misses, counts.blocks) == (2, 1, 2)


@pytest.mark.parametrize("damage", ["cut", "flipped", "gone", "folder"])
def test_a_shorter_one_takes_the_place_of_a_damaged_one(store: BlockStore, tmp_path: Path, damage: str) -> None:
    file = file_of(tmp_path, state(LINE, 5))
    data = bytearray(file.read_bytes())
    file.unlink()
    if damage == "cut":
        file.write_bytes(data[:-9])
    elif damage == "flipped":
        data[150] ^= 4
        file.write_bytes(data)
    elif damage == "folder":
        file.mkdir()
    assert load(store, LINE, 6) == [state(LINE, 2)]
    assert store.stats().corrupt == (damage != "gone")
    assert not file.exists(), "what is no good is removed, and can be written again"
    assert store.store(state(LINE, 5), namespace="")
    assert load(store, LINE, 6) == [state(LINE, 5)]


def test_other_tokens_under_the_same_name_are_a_miss(store: BlockStore) -> None:
    other = (*LINE.tokens[:3], 9, *LINE.tokens[4:])
    assert store.load_state(LINE.keys, other, block_tokens=SIZE, namespace="") == []
    assert store.stats().corrupt == 2


def test_a_verification_takes_them_for_sound_and_follows_their_names(store: BlockStore) -> None:
    false = evolve(state(LINE, 4), link=2 * SIZE)
    assert store.store(false, namespace="")
    verified = upkeep.verify(store.directory)
    assert verified.blocks == 2
    assert [why for _, why in verified.damaged] == ["its name does not follow from its tokens"]


def test_a_block_of_a_chain_is_no_state(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    LINE.store(store)
    assert load(store, LINE, 6) == [LINE.blocks[0]], "the first one has all tokens up to its end"
