"""What an answer says: JSON values and texts, each in one spelling. Tables worked by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.core.vote import Ballot, VoteKind
from reame.core.vote_ballot import ballot
from reame.core.vote_json import canonical as canonical_json
from reame.core.vote_json import find_json, leaves
from reame.core.vote_text import distance, remoteness, shingles


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


@pytest.mark.parametrize("kind", ["auto", "choice", "json", "text", "number"])
@pytest.mark.parametrize("said", ["Positive", '{"a": 1}', "7"])
def test_thinking_does_not_vote(kind: VoteKind, said: str) -> None:
    for thought in ("<think>\n\n</think>\n\n", "<think>Is it [2] or 3?</think>", "So it is 5.</think>\n"):
        assert ballot(thought + said, kind) == ballot(said, kind)
    assert ballot(f"<think>Perhaps {said}", kind) is None
    assert ballot('{"a": "</think>"}', "json") == Ballot("json", '{"a":"</think>"}', (("a", '"</think>"'),))


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


def test_text_is_compared_without_case_spaces_and_edges() -> None:
    assert ballot("  Hello,\n world! ", "text") == Ballot("text", "hello, world")
    assert ballot(" ... ", "text") is None
    assert ballot("-5", "text") != ballot("5", "text")


@pytest.mark.parametrize(("a", "b"), [("लड़का", "लड़की"), ("ก้า", "ก้ำ"), ("👍", "👎"), ("e\u0301", "e")])
def test_no_letter_is_lost_at_the_edges(a: str, b: str) -> None:
    assert len({ballot(a, "text"), ballot(f"{a}।", "text"), ballot(b, "text"), None}) == 3


def test_accents_in_one_spelling() -> None:
    assert ballot("caf\u00e9", "text") == ballot("cafe\u0301", "text")


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


def test_the_medoid_of_texts_without_blanks() -> None:
    """Character by character: words would all be different."""
    blue, sky, birds = "天空是蓝色的因为空气散射短波", "天空呈蓝色因为空气散射短波", "鸟类在冬天飞往南方"
    far = remoteness({0: blue, 1: birds, 2: sky, 3: "天空是蓝色因为空气散射短波"})
    assert sorted(far, key=far.__getitem__)[::3] == [3, 1]


def test_vowel_signs_are_in_words() -> None:
    assert shingles("लड़का और लड़की।") == {"लड़का", "और", "लड़की", "लड़का और", "और लड़की"}
