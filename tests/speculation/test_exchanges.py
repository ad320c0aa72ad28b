"""What differed once is exchanged again, until that fails."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reame.speculation.exchanges import LONGEST_PART, MOST, Exchange, Exchanges, effort

SMALL = st.lists(st.integers(0, 4), max_size=40)


def known(exchanges: Exchanges) -> list[tuple[str, str]]:
    all_of_them = [each for alike in exchanges.by_first.values() for each in alike]
    return sorted((bytes(each.old).decode(), bytes(each.new).decode()) for each in all_of_them)


def learned(old: str, new: str) -> list[tuple[str, str]]:
    exchanges = Exchanges()
    exchanges.compare(old.encode(), new.encode())
    return known(exchanges)


def test_the_longest_old_part_that_stands_there_is_exchanged() -> None:
    exchanges = Exchanges()
    exchanges.learn([1, 2], [9])
    exchanges.learn([1, 2, 3], [8, 8])
    exchanges.learn([2], [7])
    assert exchanges.at([0, 1, 2, 3], 1) == Exchange((1, 2, 3), (8, 8))
    assert exchanges.at([0, 1, 2, 4], 1) == Exchange((1, 2), (9,))
    assert exchanges.at([0, 1, 2], 2) == Exchange((2,), (7,))
    assert exchanges.at([0, 1, 1], 1) is None
    assert exchanges.at([0, 1, 1], 0) is None


def test_the_newest_of_an_old_part_holds_and_a_failed_one_is_gone() -> None:
    exchanges = Exchanges()
    exchanges.learn(b"Rossi", b"Miller")
    exchanges.learn(b"Rossi", b"Novak")
    assert known(exchanges) == [("Rossi", "Novak")]
    exchanges.forget(tuple(b"Rossi"))
    exchanges.forget(tuple(b"never learned"))
    assert known(exchanges) == []


def test_what_is_no_exchange_is_not_learned() -> None:
    exchanges = Exchanges()
    exchanges.learn([], [1])
    exchanges.learn([1], [])
    exchanges.learn([1], (1,))
    exchanges.learn([1] * (LONGEST_PART + 1), [2])
    assert known(exchanges) == []


def test_the_oldest_goes_when_there_are_too_many() -> None:
    exchanges = Exchanges()
    for i in range(MOST + 1):
        exchanges.learn([i], [200])
    assert exchanges.at([0], 0) is None
    assert exchanges.at([1], 0) == Exchange((1,), (200,))
    assert exchanges.at([MOST], 0) is not None


def test_two_prompts_tell_what_differs_between_them() -> None:
    """The digits "2" that both numbers have are no place where the texts correspond."""
    old, new = "To Rossi: order 51234 is late. Yours", "To Miller: order 92278 is late. Yours"
    assert learned(old, new) == [("51234", "92278"), ("Rossi", "Miller")]


def test_what_only_one_of_them_has_is_no_exchange_and_neither_is_what_lies_outside() -> None:
    assert learned("xx same text, and then more", "yyyy same text, zz") == []
    assert learned("one two three", "one two and a half three") == []


@given(SMALL, SMALL)
def test_an_exchange_that_was_learned_stood_in_both_texts(old: list[int], new: list[int]) -> None:
    exchanges = Exchanges()
    exchanges.compare(old, new)
    for first, alike in exchanges.by_first.items():
        for each in alike:
            assert each.old[0] == first
            assert each.old != each.new
            assert any(tuple(old[i : i + len(each.old)]) == each.old for i in range(len(old)))
            assert any(tuple(new[i : i + len(each.new)]) == each.new for i in range(len(new)))


def test_the_effort_is_that_of_all_pairs_of_equal_tokens() -> None:
    assert effort(b"aab", b"abbc") - effort(b"xxx", b"abbc") == 2 * 1 + 1 * 2
    assert effort(bytes(range(200)), bytes(range(200))) < effort(b"ab" * 100, b"ab" * 100) / 5
