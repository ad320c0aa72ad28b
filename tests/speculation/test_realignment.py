"""An old text is found again behind what differs; one byte is one token here."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from reame.speculation.exchanges import ANCHORED, Exchanges, effort
from reame.speculation.realignment import (
    EFFORT,
    LEAST_FOLLOWED,
    LOST,
    MOST_EFFORT,
    REACH,
    Alignment,
    Following,
    Trail,
)  # fmt: skip

if TYPE_CHECKING:
    import pytest

LETTERS = st.text("abc ", min_size=1, max_size=50)


def beside(old: str, live: str, *, exchanges: Exchanges | None = None) -> Alignment:
    """After `live`, both from their beginnings."""
    alignment = Alignment(old.encode(), 9, exchanges or Exchanges())
    for token in live.encode():
        alignment.advance(token)
    return alignment


def ahead(alignment: Alignment, most: int = 64) -> str:
    return bytes(alignment.ahead(most)[0]).decode()


def test_while_they_go_together_the_rest_of_the_old_text_is_ahead() -> None:
    alignment = beside("the quick fox", "the ")
    assert ahead(alignment) == "quick fox"
    assert ahead(alignment, 5) == "quick"
    assert (alignment.run, alignment.num_apart) == (13, 0)


def test_straight_behind_a_parting_one_token_stands_for_another() -> None:
    alignment = beside("room 7 is free", "room 8")
    assert ahead(alignment) == " is free"
    assert (alignment.run, alignment.num_apart) == (0, 1)
    assert ahead(beside("abcdefgh", "aXY")) == "defgh"


def test_one_token_that_agrees_is_enough_for_another_shift() -> None:
    """"Jo" for "Anna": the comma agrees two tokens further on than it would stand without a shift."""
    alignment = beside("Dear Anna, thanks", "Dear Jo,")
    assert ahead(alignment) == " thanks"
    assert (alignment.run, alignment.num_apart, alignment.is_ambiguous) == (1, 3, False)


def test_a_longer_name_shifts_the_other_way() -> None:
    assert ahead(beside("Dear Jo, thanks", "Dear Rumpelst,")) == " thanks"


def test_of_equal_agreements_that_with_the_smallest_shift_is_believed() -> None:
    """"a" stands at the third and the sixth place behind the parting; the live text has it at the second."""
    alignment = beside("##12a45a78", "##xa")
    assert ahead(alignment) == "45a78"
    assert alignment.is_ambiguous
    assert ahead(beside("##12a45a78", "##xa7")) == "8"


def test_three_that_agree_again_end_the_parting_and_teach_the_exchange() -> None:
    alignment = beside("To Anna, dear Anna, hi", "To Jo, d")
    assert (alignment.num_apart, alignment.run) == (0, ANCHORED)
    told, exchanged = alignment.ahead(64)
    assert bytes(told).decode() == "ear Jo, hi"
    assert exchanged == [False] * 4 + [True] * 2 + [False] * 4


def test_within_an_exchange_its_rest_is_ahead_and_behind_it_the_old_text() -> None:
    exchanges = Exchanges()
    exchanges.learn(b"Anna", b"Jonathan")
    assert ahead(beside("to Anna, hi", "to Jona", exchanges=exchanges)) == "than, hi"
    alignment = beside("to Anna, hi", "to Jonathan", exchanges=exchanges)
    assert ahead(alignment) == ", hi"
    assert (alignment.run, alignment.num_apart) == (9 + 3 + 1, 0)


def test_an_exchange_that_fails_is_forgotten_and_what_came_is_a_parting() -> None:
    exchanges = Exchanges()
    exchanges.learn(b"Anna", b"Jonathan")
    assert ahead(beside("to Anna, Anna", "to Joha", exchanges=exchanges)) == ", Anna"
    assert not exchanges.by_first
    exchanges.learn(b"Anna", b"Jonathan")
    assert ahead(beside("to Anna, Anna", "to Johanna", exchanges=exchanges)) == ", Johanna"  # "Joha" for "A", learned


def test_the_old_text_itself_may_come_where_an_exchange_was_expected() -> None:
    exchanges = Exchanges()
    exchanges.learn(b"Anna", b"Jo")
    assert ahead(beside("to Anna, hi", "to An", exchanges=exchanges)) == "na, hi"


def test_it_is_over_at_the_end_of_the_old_text_and_when_nothing_agrees_any_more() -> None:
    assert beside("abc", "abc").is_over
    assert not beside("abc" + "d" * 99, "abc" + "x" * LOST).is_over
    assert beside("abc" + "d" * 99, "abc" + "x" * (LOST + 1)).is_over


@frozen
class Spot:
    text: bytes
    at: int

    def after(self, most: int) -> bytes:
        return self.text[self.at : self.at + most]

    def before(self, most: int) -> bytes:
        return self.text[max(0, self.at - most) : self.at]


def trail(text: str, before: str, length: int) -> Trail:
    return Trail(length, Spot(text.encode(), text.index(before) + len(before)))


def test_a_place_is_followed_when_enough_agrees_and_left_when_more_agrees_elsewhere() -> None:
    following = Following()
    live = b"some text"
    following.offer(trail("old one", "old", LEAST_FOLLOWED - 1), live)
    assert following.alignment is None
    following.offer(trail("old one", "old", LEAST_FOLLOWED), live)
    first = following.alignment
    assert first is not None
    assert ahead(first) == " one"
    following.advance(b" o")
    following.offer(trail("another two", "another", LEAST_FOLLOWED + 2), live)
    assert following.alignment is first  # as many tokens speak for it
    following.offer(trail("another two", "another", LEAST_FOLLOWED + 3), live)
    assert following.alignment is not None
    assert ahead(following.alignment) == " two"


def test_an_old_text_that_is_used_up_is_not_followed() -> None:
    following = Following()
    following.offer(trail("abcdefgh", "abcdef", 6), b"abcdef")
    following.advance(b"ghi")
    assert following.alignment is None
    following.advance(b"j")


def test_what_differs_between_two_prompts_is_exchanged_before_any_parting() -> None:
    old = "Write to Anna about room 12. -> Dear Anna, room 12 is yours."
    live = "Write to Jo about room 345. -> Dear"
    following = Following()
    following.offer(trail(old, "Dear", 8), live.encode())
    assert following.alignment is not None
    assert ahead(following.alignment) == " Jo, room 345 is yours."
    assert not following.alignment.is_repeat


def test_it_is_a_repeat_as_long_as_nothing_differs() -> None:
    old, live = "Write to Anna about room 12. -> Dear Anna, hi", b"Write to Anna about room 12. -> Dear"
    following = Following()
    following.offer(trail(old, "Dear", 36), b"system: " + live)
    assert following.alignment is not None
    assert following.alignment.is_repeat
    following.advance(b" An")
    assert following.alignment.is_repeat
    following.advance(b"d")
    assert not following.alignment.is_repeat


def plainly(old: str, live: str) -> list[int]:
    """By shift from -len(live) to REACH, how many of the last letters agree, when the two part at their beginnings."""
    counts = []
    for shift in range(-min(len(live), REACH), REACH + 1):
        count = 0
        while count < len(live) and 0 <= (at := len(live) - 1 - count + shift) < len(old) and at < len(old):
            if old[at] != live[-1 - count]:
                break
            count += 1
        counts.append(count)
    return counts


@given(LETTERS, LETTERS)
def test_it_believes_the_longest_agreement_that_a_plain_search_finds(old: str, live: str) -> None:
    """As long as they are apart; `X` parts them."""
    alignment = Alignment(("X" + old).encode(), 9, Exchanges())
    for number, token in enumerate(("Y" + live).encode()):
        alignment.advance(token)
        if alignment.num_apart == 0 or number > REACH:
            return
        counts = plainly("X" + old, ("Y" + live)[: number + 1])
        assert alignment.run == max(counts)
        if alignment.run:
            shift = alignment.at - alignment.num_apart
            assert counts[shift + min(number + 1, REACH)] == alignment.run


@given(LETTERS, st.text("abcXY ", max_size=80))
def test_whatever_comes_it_stays_within_the_old_text(old: str, live: str) -> None:
    alignment = Alignment(old.encode(), 9, Exchanges())
    for token in live.encode():
        if alignment.is_over:
            break
        alignment.advance(token)
        assert alignment.at >= 0
        told, exchanged = alignment.ahead(16)
        assert len(told) == len(exchanged) <= 16
        assert alignment.is_over == (not told) or alignment.num_apart > LOST


def test_a_text_of_two_letters_spends_no_more_on_comparisons_than_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearly each of its tokens ends a longer past than the one that is followed."""
    spent: list[int] = []
    monkeypatch.setattr(Exchanges, "compare", lambda _, old, new: spent.append(effort(old, new)))
    random, live, following = Random(1), list(b"ab" * 100), Following()
    for number in range(500):
        live.append(random.choice(b"ab"))
        following.advance(live[-1:])
        following.offer(Trail(LEAST_FOLLOWED + number, Spot(bytes(live[-300:]), 290)), live)
    assert len(spent) > 1
    assert sum(spent) <= MOST_EFFORT + 500 * EFFORT
