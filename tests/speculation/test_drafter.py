"""The competition: all guess, the most promising is proposed, and every guess is judged by what was drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import define, field

from reame.core.request import Request
from reame.core.sequence import Sequence
from reame.speculation.drafter import Drafter
from reame.speculation.lookup import IndexedPlace
from reame.speculation.palimpsest import Site
from reame.speculation.sources import Archived, Companions, Forms, Hint, PromptLookup, Realigned
from reame.speculation.survival import Guess

if TYPE_CHECKING:
    from reame.speculation.sources import LiveText


def piece(token: int) -> bytes:
    return bytes([token])


def sequence(name: str, prompt: str, namespace: str = "") -> Sequence:
    return Sequence.new(Request(id=name, prompt=tuple(prompt.encode()), max_tokens=99, namespace=namespace), 0.0)


def propose(drafter: Drafter, of: Sequence, drawn: str, hint: str = "") -> tuple[str, str]:
    """What the drafter says, and the text goes on."""
    draft = drafter.propose(of, tuple(drawn.encode()), tuple(hint.encode()))
    of.tokens += drawn.encode()
    return (draft.source, bytes(draft.tokens).decode()) if draft else ("", "")


@define
class Says:
    """A source that always says the same."""

    name: str
    tokens: str
    prior: float = 0.5
    seen: list[str] = field(factory=list)

    def guess(self, text: LiveText) -> Guess:
        self.seen.append(text.tail_bytes.decode())
        return Guess(self.name, tuple(self.tokens.encode()), [0] * len(self.tokens), self.prior)


def test_the_most_promising_guess_is_proposed() -> None:
    """Two tokens at 0.6 promise 0.6 + 0.36; one at 0.9 promises 0.9."""
    drafter = Drafter(piece, [Says("one", "z", 0.9), Says("two", "yy", 0.6)])
    assert propose(drafter, sequence("r", "abc"), "d") == ("two", "yy")


@pytest.mark.parametrize(
    ("guess_s", "step_s", "saved_s", "guesses"),
    [
        (0.0005, 0.008, 0.0, 40 + 90),  # the smallest model: forty for nothing, then about every fourth
        (0.0005, 0.1, 0.0, 400),  # a step takes so long that it does not matter
        (0.0005, 0.008, 1.0, 400),  # they pay
        (0.0005, 0.008, -1.0, 40 + 90),
        (0.001, 0.008, 0.1, 120 + 70),  # as long as they have saved more
    ],
)
def test_guesses_that_save_nothing_are_made_at_every_fourth_step(
    guess_s: float, step_s: float, saved_s: float, guesses: int
) -> None:
    now = [0.0]

    class Slow(Says):
        def guess(self, text: LiveText) -> Guess:
            now[0] += guess_s
            return super().guess(text)

    source = Slow("one", "z")
    drafter, live = Drafter(piece, [source], clock=lambda: now[0]), sequence("r", "ab")
    live.drafts.seconds = saved_s
    for _ in range(400):
        propose(drafter, live, "c")
        now[0] += step_s
    assert len(source.seen) == pytest.approx(guesses, abs=12)


def test_sources_see_prompt_and_answer_as_they_grow() -> None:
    source = Says("one", "z")
    drafter, live = Drafter(piece, [source]), sequence("r", "ab")
    propose(drafter, live, "c")
    propose(drafter, live, "de")
    assert source.seen == ["abc", "abcde"]


def test_a_guess_that_nobody_verified_is_judged_all_the_same() -> None:
    drafter, live = Drafter(piece, [Says("right", "x", 0.5), Says("wrong", "y", 0.5)]), sequence("r", "ab")
    for _ in range(12):
        propose(drafter, live, "x")
    assert propose(drafter, live, "x") == ("right", "x")
    right, wrong = (drafter.survival.draft(source.guess(drafter._live["r"].text)) for source in drafter.sources)
    assert right is not None
    assert wrong is not None
    always, never = (0.5 + 14 / 16) / 2, (0.5 + 2 / 16) / 2  # what is believed of a place by the kind as a whole
    assert right.survivals == pytest.approx(((12 + 4 * always) / 16,))
    assert wrong.survivals == pytest.approx((4 * never / 16,))


def test_the_later_places_of_a_guess_are_judged_as_the_text_gets_there() -> None:
    """One token a step: only an older guess that has been right so far tells about its later tokens."""

    class Reader:
        name = "reader"

        def guess(self, text: LiveText) -> Guess:
            rest = b"abcdefgh"[len(text.index.tokens) :]
            return Guess(self.name, tuple(rest), [len(text.index.tokens)] * len(rest), 0.5)

    drafter, live = Drafter(piece, [Reader()]), sequence("r", "a")
    for drawn in "bcdefgh":
        propose(drafter, live, drawn)
    tried = drafter.survival._tried
    assert [tried["reader", 2, place] for place in range(4)] == [1, 1, 1, 1]
    assert tried["reader", 2, 4] == 2  # places 4 and 5 count together
    assert tried["reader", 3, 0] == 1
    assert ("reader", 3, 1) not in tried


def test_prompt_lookup_follows_the_text_itself() -> None:
    drafter, live = Drafter(piece, [PromptLookup()]), sequence("r", "the cat sat. Now: ")
    assert propose(drafter, live, "the c") == ("prompt", "at sat")


def test_companions_learn_from_each_other_but_not_across_namespaces() -> None:
    drafter = Drafter(piece)
    drafter.sources.append(Companions(drafter.texts))
    first, second, foreign = sequence("a", "1 "), sequence("b", "2 "), sequence("c", "3 ", namespace="other")
    propose(drafter, first, "lorem ipsum dolor")
    assert propose(drafter, second, "lorem") == ("live", " ipsum do")
    assert propose(drafter, foreign, "lorem") == ("", "")
    drafter.forget("a")
    drafter.forget("never seen")
    assert propose(drafter, sequence("d", "4 "), "ipsum") == ("", "")


def test_the_archive_is_asked_with_the_tail_and_the_namespace() -> None:
    asked = []

    def continuations(tail: list[int], namespace: str) -> list[Site]:
        asked.append((bytes(tail).decode(), namespace))
        return [Site(20, 0, tuple(b"yes")), Site(3, 0, tuple(b"no"))]

    drafter = Drafter(piece, [Archived(continuations, lambda site: IndexedPlace([], 0))])  # type: ignore[arg-type]
    assert propose(drafter, sequence("r", "ab", "ns"), "cd")[0] == "palimpsest"
    assert asked == [("abcd", "ns")]


def test_a_text_that_was_left_is_found_again_at_the_first_token_that_agrees() -> None:
    drafter = Drafter(piece, [PromptLookup(), Realigned()])
    live = sequence("r", "Hello Anna, how do you do? ")
    propose(drafter, live, "Hello ")
    propose(drafter, live, "Jo")
    assert propose(drafter, live, ",") == ("realigned", " how ")


def test_what_was_exchanged_once_is_exchanged_again_whatever_look_up_says() -> None:
    drafter = Drafter(piece, [PromptLookup(), Realigned()])
    live = sequence("r", "Hello Anna, thank you, Anna! ")
    propose(drafter, live, "Hello ")
    propose(drafter, live, "Jo")
    source, said = propose(drafter, live, ", thank you, ")
    assert source == "realigned"
    assert said.startswith("Jo! ")


@pytest.mark.parametrize(("begins", "winner"), [("y", "found"), ("z", "informed")])
def test_a_guess_that_is_better_informed_overrules_others(begins: str, winner: str) -> None:
    """Else the one that knows less of what may fail would always promise more."""

    class Informed:
        def guess(self, text: LiveText) -> Guess:
            return Guess("informed", (0, 0), [0, 0], 0.1, overrules=tuple(b"xz"))

    drafter = Drafter(piece, [Says("found", begins * 3, 0.9), Informed()])
    assert propose(drafter, sequence("r", "abc"), "d")[0] == winner


def test_a_constraint_s_hint_is_a_draft() -> None:
    drafter = Drafter(piece, [Hint()])
    live = sequence("r", "ab")
    assert propose(drafter, live, "c", '"name"') == ("grammar", '"name"')
    assert propose(drafter, live, "d") == ("", "")


def test_a_form_is_put_into_tokens_only_if_they_spell_it() -> None:
    def spelled(text: str) -> list[int]:
        return list(text.encode())

    def spaced(text: str) -> list[int]:
        return list(b" " + text.encode())

    for tokenize, expected in ((spelled, ("forms", "2. ")), (spaced, ("", ""))):
        drafter = Drafter(piece, [Forms(lambda text: "2. " if text.endswith("1. a\n") else "", tokenize, piece)])
        live = sequence("r", "List: ")
        assert propose(drafter, live, "1. a") == ("", "")
        assert propose(drafter, live, "\n") == expected
