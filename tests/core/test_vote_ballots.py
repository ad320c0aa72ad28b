"""What an answer says: numbers, labels, JSON values and texts, each in one spelling. Tables worked by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.core.vote import Ballot, VoteKind
from reame.core.vote_ballot import ballot, guessed
from reame.core.vote_json import canonical as canonical_json
from reame.core.vote_json import find_json, leaves
from reame.core.vote_label import final_label
from reame.core.vote_number import canonical, final_number, numbers
from reame.core.vote_text import distance, remoteness, shingles


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("The answer is 42.", "42"),
        ("-5", "-5"),
        ("It falls to \u22125 degrees", "-5"),
        ("It is minus 5 degrees", "-5"),
        ("+7", "7"),
        ("between 10-15", "15"),
        ("3.14", "3.14"),
        ("3,14", "3.14"),
        ("3,5 km", "3.5"),
        ("18.00", "18"),
        (".5", "0.5"),
        ("0,125", "0.125"),
        ("1,234", "1234"),
        ("1.234", "1.234"),
        ("1,234.56", "1234.56"),
        ("1.234,56", "1234.56"),
        ("1.234.567", "1234567"),
        ("1,234,567", "1234567"),
        ("12,34,567", "1234567"),
        ("1 234 567,5", "1234567.5"),
        ("1\u202f234", "1234"),
        ("1'234.50", "1234.5"),
        ("Es kostet 2,50 Euro je Stück, zusammen 1.250 Euro", "1250"),
        ("It costs 2.50 each, 1,250 together", "1250"),
        ("3/4", "0.75"),
        ("1/3 of it", "1/3"),
        ("2/6", "1/3"),
        ("1 1/2 cups", "1.5"),
        ("½", "0.5"),
        ("2½ hours", "2.5"),
        ("⅓", "1/3"),
        (r"\frac{3}{8}", "0.375"),
        (r"\boxed{1{,}250}", "1250"),
        (r"so we get $\boxed{\dfrac{1}{4}}$ in 2 steps", "0.25"),
        ("25%", "0.25"),
        ("25 %", "0.25"),
        ("25 percent", "0.25"),
        ("12,5 Prozent", "0.125"),
        (r"25\%", "0.25"),
        ("$18", "18"),
        ("-$18", "-18"),
        ("$18.50 a day", "18.5"),
        ("18 €", "18"),
        ("18kg", "18"),
        ("18 eggs", "18"),
        ("1.5 million", "1500000"),
        ("2 Mrd Euro", "2000000000"),
        ("6.02e2", "602"),
        ("1.5 \u00d7 10^3", "1500"),
        (r"1.5 \times 10^{-2}", "0.015"),
        ("3 x 10 = 30", "30"),
        ("16 - 3 - 4 = 9 eggs, 9 * 2 = 18 dollars", "18"),
        ("The answer is 3 + 4 = 7 apples, bought in 2 shops", "7"),
        ("The answer is 18 apples, bought in 2 shops", "18"),
        ("**Answer:** 18", "18"),
        ("Answer:\n\n18", "18"),
        ("Die Antwort lautet 3,5.", "3.5"),
        ("We have 3.\n#### 1,200", "1200"),
        ("Answer: 4. Wait.\nAnswer: 5.", "5"),
        ("H2O has x2", None),
        ("nothing", None),
        ("", None),
        ("version 1.2.3", None),
        ("1/0", None),
        ("9" * 5000, None),
    ],
)
def test_the_final_number(text: str, number: str | None) -> None:
    assert final_number(text) == number


def test_a_list_is_numbers() -> None:
    assert numbers("1, 2 and 3,5") == ["1", "2", "3.5"]
    assert numbers("the 4th of 12") == ["4", "12"]


@given(st.fractions(max_denominator=10_000))
def test_canonical_is_the_value_and_nothing_else(value: Fraction) -> None:
    assert Fraction(canonical(value)) == value


@given(st.integers(-(10**12), 10**12), st.integers(0, 99))
def test_one_number_in_every_spelling(whole: int, hundredths: int) -> None:
    point, comma = f"{whole:,}.{hundredths:02}", f"{whole:,}".replace(",", ".") + f",{hundredths:02}"
    plain, spaces = f"{whole}.{hundredths:02}", f"{whole:,}".replace(",", "\u202f") + f",{hundredths:02}"
    assert len({final_number(f"= {spelled} €") for spelled in (point, comma, plain, spaces)}) == 1


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("B", "b"),
        ("b", "b"),
        ("(B)", "b"),
        ("B)", "b"),
        ("B. Paris", "b"),
        ("B) Paris is the capital, as everybody knows.", "b"),
        ("**B**", "b"),
        ("Option C: the third", "c"),
        ("The answer is (D).", "d"),
        ("The answer is D", "d"),
        ("I think, step by step.\nAnswer: C", "c"),
        (r"\boxed{A}", "a"),
        ("Positive", "positive"),
        ("positive.", "positive"),
        ('"Positive"', "positive"),
        ("Yes, because it rains.", "yes"),
        ("No - it is dry.", "no"),
        ("The correct answer is: very negative.", "very negative"),
        ("This is a long sentence about a review that was good\nPositive", "positive"),
        ("A dog barks at the cat in the garden of the house", None),
        ("", None),
        ("...", None),
    ],
)
def test_the_label(text: str, label: str | None) -> None:
    assert final_label(text) == label


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ('{"a": 1, "b": [2, 3]}', '{"b":[2,3],"a":1}'),
        ('{"a": 1}', '{"a": 1.0}'),
        ('{"a": 100}', '{"a": 1e2}'),
        ('{"a": "x"}', '```json\n{"a": "x"}\n```'),
        ('{"a": "x"}', 'Here it is:\n{"a": "x"}\nI hope it helps.'),
        ("[1, 2]", "[1,2]"),
        ("null", " null "),
        ('{"a": "\\u00e9"}', '{"a": "é"}'),
    ],
)
def test_equal_json(a: str, b: str) -> None:
    assert ballot(a, "json") == ballot(b, "json") is not None


@pytest.mark.parametrize(
    ("a", "b"),
    [('{"a": 1}', '{"a": "1"}'), ('{"a": 1}', '{"a": true}'), ("[1, 2]", "[2, 1]"), ('{"a": null}', "{}")],
)
def test_different_json(a: str, b: str) -> None:
    assert ballot(a, "json") != ballot(b, "json")


@pytest.mark.parametrize("text", ["no json", '{"a": ', "[" * 100_000, '{"a": NaN}', ""])
def test_no_json(text: str) -> None:
    assert ballot(text, "json") is None


def test_the_leaves() -> None:
    assert leaves({"b": {"d": 2, "c": [1, {"x": 1}]}, "a": {}}) == (
        ("a", "{}"), ("b.c", '[1,{"x":1}]'), ("b.d", "2"),
    )  # fmt: skip
    assert leaves([1]) == ()


SCALARS = st.none() | st.booleans() | st.integers() | st.text()


@given(st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8))
def test_json_comes_back(value: object) -> None:
    assert find_json(canonical_json(value)) == (value,)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"a": 1}', "json"),
        ("```json\n[1]\n```", "json"),
        ("18", "number"),
        ("There are 18 eggs.", "number"),
        ("We add: 9 + 9 = 18 and so on and on, until nothing is left of all of this and more", "number"),
        ("First 3, then 4.\nThe answer is 7.", "number"),
        ("B", "choice"),
        ("Positive.", "choice"),
        ("We saw it.\nThe answer is (B).", "choice"),
        ("```python\nx = 1 + 2 = 3\n```", "text"),
        ("The sky is blue because air scatters short waves more than long ones.", "text"),
        ("It was founded in 1998 by two people who had met at a university and who had then 3 ideas.", "text"),
    ],
)
def test_auto_knows_the_kind(text: str, kind: VoteKind) -> None:
    assert guessed(text) == kind
    told = ballot(text, "auto")
    assert told is not None
    assert told.kind == kind


def test_text_is_compared_without_case_spaces_and_edges() -> None:
    assert ballot("  Hello,\n world! ", "text") == Ballot("text", "hello, world")
    assert ballot(" ... ", "text") is None


words = st.lists(st.sampled_from("abc"), max_size=6).map(" ".join)


@given(words, words, words)
def test_the_distance_is_a_metric(a: str, b: str, c: str) -> None:
    x, y, z = map(shingles, (a, b, c))
    assert distance(x, x) == 0
    assert 0 <= distance(x, y) == distance(y, x) <= 1
    assert distance(x, z) <= distance(x, y) + distance(y, z) + 1e-12


def test_the_medoid_is_the_least_remote() -> None:
    cat = "the cat sat on the mat"
    far = remoteness({0: "the cat sat on a mat", 1: "a dog sat on the mat", 3: "birds fly", 4: cat})
    assert min(far, key=far.__getitem__) == 4


def test_labels_of_a_list_are_compared_as_they_are() -> None:
    labels = ("-1", "1", "C", "C++", "C#", ">50", "<50", "yes, today", "yes, tomorrow", "to be read by a human", "Yes")
    ballots = [ballot(label, "choice", is_label=True) for label in labels]
    assert [found.value for found in ballots if found] == list(labels)
