"""How sure the model was of each field."""

from __future__ import annotations

import json
from math import log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.events import TokenLogprob
from reame.core.field_confidence import field_confidence
from reame.core.json_leaves import leaves

TEXTS = st.text(max_size=12)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=8
)


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def paths(value: Any, pointer: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        inner = {key.replace("~", "~0").replace("/", "~1"): each for key, each in value.items()}
        return [found for key, each in inner.items() for found in paths(each, f"{pointer}/{key}")]
    if isinstance(value, list) and value:
        return [found for index, each in enumerate(value) for found in paths(each, f"{pointer}/{index}")]
    return [(pointer, value)]


@settings(max_examples=60)
@given(VALUES)
def test_every_leaf_is_found_where_it_is(value: Any) -> None:
    text = compact(value)
    read = json.JSONDecoder().raw_decode
    assert [(leaf.pointer, read(text[leaf.start :].decode())[0]) for leaf in leaves(text)] == paths(value)


@settings(max_examples=60)
@given(VALUES, st.integers(0, 200))
def test_a_text_that_is_cut_has_the_leaves_before_the_cut(value: Any, place: int) -> None:
    text = compact(value)
    known = [leaf for leaf in leaves(text) if leaf.stop <= place]
    assert leaves(text[:place])[: len(known)] == known


def token(piece: str, chance: float = 1.0) -> TokenLogprob:
    return TokenLogprob(0, piece.encode(), log(chance))


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([token('{"a":"'), token("x", 0.5), token("y", 0.5), token('","'), token('b":'), token("7", 0.9), token("}")],
         {"/a": 0.25, "/b": 0.9}),
        ([token('{"a":'), token("1", 0.5), token("2", 0.5), token("}", 0.8), token("", 0.1)], {"/a": 0.2}),
        ([token('{"a":'), token("[true", 0.5), token(",false", 0.4), token("]}")], {"/a/0": 0.5, "/a/1": 0.4}),
        ([token('{"a":'), token("[]", 0.3), token("}")], {"/a": 0.3}),
        ([token('"ye', 0.7), token('s"')], {"": 0.7}),
        ([token('{"a":"'), token("x", 0.5), token('","b":"', 0.5), token("cut", 0.5)], {"/a": 0.25}),
        ([token('{"a~/b":'), token("null", 0.5), token("}")], {"/a~0~1b": 0.5}),
        ([], {}),
    ],
)  # fmt: skip
def test_a_fields_probability_is_that_of_the_tokens_that_decided_it(
    tokens: list[TokenLogprob], expected: dict[str, float]
) -> None:
    assert field_confidence(tokens) == pytest.approx(expected)


def test_what_is_nested_without_end_is_given_up() -> None:
    assert leaves(b'{"a":1,"b":' + b"[" * 100_000) == leaves(b'{"a":1,')
