"""One line of a batch: what is taken, what is refused in which words, and where it stands in the tree."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lines import body_of, line_of

from reame.batch.line import CHAT, MAX_LINE, PIECE, Fault, Record, place_of, read_line, same_as


def record(raw: bytes, number: int = 1) -> Record:
    line = read_line(raw, number)
    assert isinstance(line, Record), line.error.message
    return line


def fault(raw: bytes, number: int = 7) -> Fault:
    line = read_line(raw, number)
    assert isinstance(line, Fault)
    return line


def test_a_line() -> None:
    line = record(line_of("a", "hello"))
    assert (line.custom_id, line.url, line.body) == ("a", CHAT, body_of("hello"))


@pytest.mark.parametrize(("before", "after"), [(b"", b"\r\n"), (b"\xef\xbb\xbf", b"\n"), (b"\xef\xbb\xbf", b"\r\n")])
def test_a_byte_order_mark_and_carriage_returns_change_nothing(before: bytes, after: bytes) -> None:
    assert record(before + line_of("a") + after).id == record(line_of("a")).id


@pytest.mark.parametrize("url", ["/v1/completions", "/v1/completions/", "/completions", "completions"])
def test_urls_are_taken_as_the_api_takes_paths(url: str) -> None:
    assert record(line_of("a", url=url)).url == "/v1/completions"


@pytest.mark.parametrize(
    ("raw", "status", "word", "param"),
    [
        (b"", 400, "blank", None),
        (b"  \r\n", 400, "blank", None),
        (b'{"custom_id": "a", ', 400, "not valid JSON", None),
        (b"\xff\xfe{}", 400, "not UTF-8", None),
        (b"[1]", 400, "must be a JSON object", None),
        (b'{"custom_id": 5, "url": "/v1/completions", "body": {}}', 400, "a string", "custom_id"),
        (b'{"url": "/v1/completions", "body": {}}', 400, "is required", "custom_id"),
        (b'{"custom_id": "a", "body": {}}', 400, "is required", "url"),
        (line_of("a", url="/v1/embeddings"), 400, "must be /v1/chat/completions or", "url"),
        (b'{"custom_id": "a", "method": "GET", "url": "/v1/completions", "body": {}}', 400, "POST", "method"),
        (b'{"custom_id": "a", "url": "/v1/completions", "body": "x"}', 400, "must be an object", "body"),
        (line_of("a", stream=True), 400, "no place in a batch", "body.stream"),
        (b"x" * (MAX_LINE + 1), 413, "longer than 16 MiB", None),
    ],
)
def test_a_fault_says_where_and_what(raw: bytes, status: int, word: str, param: str | None) -> None:
    error = fault(raw).error
    assert error.message.startswith("line 7: ")
    assert word in error.message
    assert "\n" not in error.message
    assert (error.status, error.param) == (status, param)


def test_every_fault_has_a_code() -> None:
    for raw in (b'{"custom_id": 5, "url": "/v1/completions", "body": {}}', b'{"custom_id": "a", "url": 5, "body": {}}'):
        assert fault(raw).error.code == "invalid_line"


def test_a_fault_keeps_the_custom_id_that_the_line_has() -> None:
    assert fault(line_of("a", url="/v1/nothing")).custom_id == "a"
    assert fault(b"{").custom_id is None


def test_the_id_says_what_was_asked() -> None:
    line = line_of("a", "hello")
    spaced = json.dumps(json.loads(line), indent=1).replace("\n", " ").encode()
    assert record(line, 1).id == record(spaced, 99).id
    assert len({record(raw).id for raw in (line, line_of("b", "hello"), line_of("a", "hallo"))}) == 3
    assert fault(b"{", 1).id != fault(b"{", 2).id


def test_only_fixed_answers_are_the_same() -> None:
    def same(**more: object) -> bytes | None:
        return same_as(CHAT, body_of("hi", **more))

    assert same() is not None
    assert same() == same(user="somebody", n=None)
    assert same() != same(max_tokens=9)
    assert same(temperature=0.7) is None
    assert same(temperature=0.7, seed=4) is not None
    assert same(reame={"answers": False}) is None


@given(st.lists(st.text("ab", max_size=3 * PIECE), min_size=1, max_size=20))
def test_those_that_begin_alike_stand_together(texts: list[str]) -> None:
    """Whatever pieces two have in common, all between them in the order have too."""
    places = sorted(place_of(CHAT, body_of(text)) for text in texts)
    for first, between, last in zip(places, places[1:], places[2:], strict=False):
        common = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(min(first, last)))
        assert between[:common] == first[:common]


def test_the_tree_is_that_of_the_prompt_whatever_else_the_body_has() -> None:
    assert place_of(CHAT, body_of("x" * 100)) == place_of(CHAT, body_of("x" * 100, max_tokens=99))
    shared = "the instruction " * 40
    first, second = (place_of(CHAT, {"prompt": shared + word}) for word in ("one", "two"))
    assert first != second
    assert first[: 4 * (len(shared) // PIECE)] == second[: 4 * (len(shared) // PIECE)]
