"""Names of blocks: each says everything that precedes it, and nothing but that."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.blocks import block_keys, root_key

tokens = st.lists(st.integers(0, 2**32 - 1), max_size=24)


def test_only_whole_blocks_have_names() -> None:
    root = root_key(b"f", "n")
    assert [len(block_keys(root, range(length), 4)) for length in range(10)] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert all(len(key) == 16 for key in [root, *block_keys(root, range(8), 4)])


def test_names_are_those_of_yesterday() -> None:
    """They are on disks: whoever changes them makes every file there useless."""
    root = root_key(b"fingerprint", "alice", b"salt")
    assert root.hex() == "8dd1627f086b35b7293798eb5db52ef0"
    assert [key.hex() for key in block_keys(root, [1, 2, 2**32 - 1, 4], 2)] == [
        "be61713865bb97e9f13dd2399f65eaba",
        "2698fe80b6ccb2451902fa2335e58acd",
    ]


@given(tokens, tokens, st.integers(1, 5))
@settings(deadline=None)
def test_a_name_is_shared_exactly_as_far_as_the_tokens_are(first: list[int], second: list[int], size: int) -> None:
    root = root_key(b"f", "")
    ours, theirs = block_keys(root, first, size), block_keys(root, second, size)
    for depth, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        assert (one == other) == (first[: depth * size] == second[: depth * size])
    assert len(set(ours)) == len(ours)


@given(tokens, st.integers(0, 24), st.integers(1, 5))
@settings(deadline=None)
def test_a_longer_prompt_keeps_the_names_of_its_beginning(sequence: list[int], cut: int, size: int) -> None:
    whole = block_keys(b"r" * 16, sequence, size)
    part = block_keys(b"r" * 16, sequence[:cut], size)
    assert whole[: len(part)] == part


roots = st.tuples(st.binary(max_size=4), st.text(max_size=4), st.binary(max_size=4))


@given(roots, roots)
@settings(deadline=None)
def test_no_other_three_parts_give_the_same_root(
    one: tuple[bytes, str, bytes], other: tuple[bytes, str, bytes]
) -> None:
    """Also when they are the same bytes, cut elsewhere."""
    assert (root_key(*one) == root_key(*other)) == (one == other)
    assert root_key(b"ab", "c", b"") != root_key(b"a", "bc", b"")
    assert root_key(b"a", "bc", b"") != root_key(b"a", "b", b"c")


def test_a_block_of_another_root_has_another_name() -> None:
    names = {
        block_keys(root_key(f, n, s), range(4), 4)[0] for f in (b"1", b"2") for n in ("", "a") for s in (b"", b"s")
    }
    assert len(names) == 8
