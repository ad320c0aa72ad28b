"""Prompt look-up: the longest earlier match wins, and a text never finds its own end."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reame.speculation.lookup import LONGEST, Match, NgramIndex


def index_of(*tokens: int) -> NgramIndex:
    index = NgramIndex()
    index.extend(tokens)
    return index


def test_the_longest_match_wins_over_a_newer_one() -> None:
    index = index_of(1, 2, 3, 40, 9, 2, 3, 50, 1, 2, 3)
    assert index.find([1, 2, 3]) == Match(3, 3)
    assert index.continuation(3, 2) == (40, 9)


def test_of_equal_matches_the_newest_wins() -> None:
    index = index_of(2, 3, 40, 2, 3, 50, 7, 2, 3)
    assert index.find([8, 2, 3]) == Match(2, 5)


def test_one_token_in_common_is_no_match() -> None:
    assert index_of(1, 2, 3).find([9, 2]) is None
    assert index_of(1, 2, 3).find([2]) is None


def test_the_end_of_a_text_is_not_found_until_something_follows_it() -> None:
    index = index_of(5, 6)
    assert index.find([5, 6]) is None
    index.extend([7])
    assert index.find([5, 6]) == Match(2, 2)


def test_a_text_that_repeats_itself_is_continued_beyond_its_end() -> None:
    index = index_of(1, 2, 3, 1, 2, 3, 1, 2)
    match = index.find(index.tokens)
    assert match == Match(5, 5)
    assert index.continuation(match.position, 7) == (3, 1, 2, 3, 1, 2, 3)


def test_a_match_is_not_followed_for_ever() -> None:
    index = index_of(*[7] * 500)
    match = index.find(index.tokens)
    assert match is not None
    assert match.length == LONGEST


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=12))
def test_what_is_found_is_there_and_nothing_longer_among_the_newest(text: list[int], tail: list[int]) -> None:
    index = index_of(*text)
    match = index.find(tail)
    pairs = [i for i in range(2, len(text)) if text[i - 2 : i] == tail[-2:]] if len(tail) > 1 else []
    assert (match is None) == (not pairs)
    if match:
        assert text[match.position - match.length : match.position] == tail[-match.length :]
        assert len(index.continuation(match.position, 9)) == 9

        def agreement(i: int) -> int:
            return max(n for n in range(2, min(i, len(tail)) + 1) if text[i - n : i] == tail[-n:])

        newest = pairs[-24:]
        assert match.length == max(map(agreement, newest))
