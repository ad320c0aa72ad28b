"""JSON from strangers."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.api.schema_fields import Fields, kind, parse_object
from reame.core.strict_json import MAX_DEPTH
from reame.errors import RequestError

BENT = {
    "empty": b"",
    "cut": b'{"a":',
    "not an object": b"[]",
    "a string": b'"x"',
    "two values": b"{} {}",
    "not UTF-8": b'{"a":"\xff"}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":[-Infinity]}',
    "infinite float": b'{"a":1e999}',
    "infinite float in a list of integers": b'{"a":[1,2,1e999]}',
    "same key twice": b'{"a":1,"a":2}',
    "same key twice inside": b'{"a":[{"b":1,"b":1}]}',
    "half a surrogate pair": rb'{"a":"\ud800"}',
    "half a surrogate pair in a key": rb'{"\udc00":1}',
    "too deep": b'{"a":' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}",
    "much too deep": b'{"a":' + b"[" * 200_000,
    "enormous integer": b'{"a":' + b"9" * 5000 + b"}",
    "control character": b'{"a":"\x00"}',
}


@pytest.mark.parametrize("raw", BENT.values(), ids=BENT.keys())
def test_a_bent_body_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse_object(raw)
    assert caught.value.status == 400
    assert caught.value.message.endswith(".")


@pytest.mark.parametrize("name", sorted(BENT.keys() - {"not an object", "a string", "not UTF-8", "UTF-16"}))
def test_json_in_a_string_has_the_rules_of_the_body(name: str) -> None:
    with pytest.raises(RequestError) as caught:
        Fields({"a": BENT[name].decode()}, "outer").parsed("a")
    assert (caught.value.status, caught.value.param) == (400, "outer.a")
    assert caught.value.message.startswith("outer.a ")
    assert caught.value.message.endswith(".")


def test_json_in_a_string_is_read() -> None:
    assert Fields({"a": '{"b": [1, "\\u00e4"]}'}).parsed("a") == {"b": [1, "ä"]}


def test_a_straight_body_is_read() -> None:
    depth = MAX_DEPTH - 2
    raw = (
        b'\xef\xbb\xbf{"a":"\\ud83d\\ude00","b":' + b"[" * depth + b"]" * depth + b',"c":[1,null,true],"\xc3\xa4":1.5}'
    )
    value = parse_object(raw)
    assert value["a"] == "\N{GRINNING FACE}"
    assert value["c"] == [1, None, True]
    assert value["ä"] == 1.5


@settings(deadline=None)
@given(st.binary() | st.text().map(str.encode))
def test_bytes_give_an_object_or_a_request_error(raw: bytes) -> None:
    try:
        value = parse_object(raw)
    except RequestError:
        return
    assert isinstance(value, dict)


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
TREES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), TREES), st.booleans())
def test_what_json_can_say_comes_back(value: dict[str, object], ascii_only: bool) -> None:
    assert parse_object(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@pytest.mark.parametrize("value", ["5", True, [5], {}, 5.5, -1, 11, 10**40, float("1e300")])
def test_what_is_no_integer_in_the_range_is_refused(value: object) -> None:
    with pytest.raises(RequestError) as caught:
        Fields({"a": value}, "outer[3]").whole("a", 0, 10)
    assert caught.value.param == "outer[3].a"
    assert "integer from 0 to 10" in caught.value.message


@pytest.mark.parametrize(("value", "read"), [(None, None), (0, 0), (10, 10), (5.0, 5)])
def test_integers(value: object, read: int | None) -> None:
    assert Fields({"a": value}).whole("a", 0, 10) == read


@pytest.mark.parametrize("value", ["1", True, -0.1, 2.1, [], {}])
def test_what_is_no_number_in_the_range_is_refused(value: object) -> None:
    with pytest.raises(RequestError, match="number from 0 to 2"):
        Fields({"a": value}).number("a", 0, 2)


def test_an_open_end_is_not_in_the_range() -> None:
    fields = Fields({"a": 0, "b": 1})
    with pytest.raises(RequestError, match="above 0 and at most 1, not 0"):
        fields.number("a", 0, 1, above=True)
    assert fields.number("b", 0, 1, above=True) == 1


def test_null_is_absent() -> None:
    for fields in (Fields({"a": None}), Fields({})):
        assert fields.flag("a") is False
        read = (
            fields.text("a"),
            fields.whole("a", 0, 1),
            fields.number("a", 0, 1),
            fields.array("a"),
            fields.record("a"),
        )
        assert read == (None,) * 5


def test_messages_do_not_repeat_text() -> None:
    assert kind("my secret prompt") == "a string"
    assert kind({"my": "secret"}) == "an object"
    assert kind(10**400) == "an enormous number"
