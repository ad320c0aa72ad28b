"""Patterns mean what JSON Schema says, whatever dialect the compiler reads: by hand, and against Python's re."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from reame.constraint.closed import closed
from reame.constraint.fault import ConstraintFault
from reame.constraint.grammar import _schema_text
from reame.constraint.pattern import PatternFault, rust_pattern
from reame.constraint.schema_check import check_schema

TOKENIZER = LLTokenizer("byte")


def lets_through(pattern: str, text: str, **more: object) -> bool:
    schema = closed({"type": "string", "pattern": pattern, **more})
    matcher = LLMatcher(TOKENIZER, _schema_text(schema), log_level=0)
    assert matcher.get_error() == ""
    tokens = list(json.dumps(text, ensure_ascii=False).encode())
    return bool(matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting())


@pytest.mark.parametrize(
    ("pattern", "fits", "others"),
    [
        ('^[^"]$', ["a", "\\", "\n", "\x1f", "é", "😀"], ['"', "ab"]),
        (r"^[^\\]$", ["a", '"', "\x01"], ["\\"]),
        (r'^[^\\/:*?"<>|]+$', ["name.txt", "è"], ["a\\b", 'a"b', "a/b"]),
        ("^[^ -~]$", ["é", "\n"], ['"', "\\", "a", " "]),
        (r"^[\x00-\x1f]$", ["\x01", "\x1f"], ['"', "\\"]),
        (r'^([\x01-\x1f]|[^\x01-\x1f"])$', ["\x01", "a", "\\"], ['"']),
        (r'^[^\w"]$', ["-", "é", "\n"], ['"', "a", "_"]),
        ("^.$", ["a", '"', "\\", "\t", "😀", "\x85"], ["\n", "\r", "\u2028", "\u2029"]),
        (r"^\s$", [" ", "\t", "\n", "\xa0", "\ufeff", "\u2028"], ["\x85", "a", "\u200b"]),
        (r"^\S$", ["a", "\x85", '"', "\\"], [" ", "\ufeff", "\xa0"]),
        (r"^[\S]$", ["a", "\x85"], [" ", "\ufeff"]),
        (r"^\d\D\w\W$", ["1a_-", "9ééé"[:2] + "a."], ["٣a_-", "1a_b", "1aé."]),
        (r"^[a-z&&[^b]$", ["w", "&", "[", "^", "b"], ["]"]),
        (r"^[+--]$", ["+", ",", "-"], ["."]),
        (r"^[a-c~~d-]$", ["b", "~", "d", "-"], ["e"]),
        (r"^[\]\-\^]$", ["]", "-", "^"], ["\\", "a"]),
        (r"^[\d-x]$", ["5", "-", "x"], ["y"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^\x41\u0042\u{43}\cJ\ud83d\ude00$", ["ABC\n😀"], ["ABC"]),
        (r"^\$\.\*\/\<\-\ $", ["$.*/<- "], ["x"]),
        (r"^(?<year>\d{4})-(?:0[1-9]|1[0-2])$", ["2026-11"], ["2026-13"]),
        (r"^(?i)[a-c]x$", ["AX", "bx"], ["dx"]),
        (r"^\p{Lu}[^\p{Lu}]$", ["Éé", 'A"'], ["éé", "AB"]),
        (r"^[\p{L}-]+$", ["é-a"], ["1"]),
        ("^]}$", ["]}"], ["]"]),
        ("a#b", ["xa#by"], ["ab"]),
    ],
)
def test_language(pattern: str, fits: list[str], others: list[str]) -> None:
    check_schema({"type": "string", "pattern": pattern})
    assert [text for text in fits if not lets_through(pattern, text)] == []
    assert [text for text in others if lets_through(pattern, text)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^[[:alpha:]]$", "POSIX"),
        ("^[]a]$", r"write \]"),
        ("^[^]$", r"write \]"),
        ("^[a--b]$", "out of order"),
        ("[z-a]", "out of order"),
        ("[a-", "without its ]"),
        ("[", "without its ]"),
        ("a\\", "ends with a backslash"),
        (r"\A\Z", r"has \A"),
        (r"\y", r"has \y"),
        (r"\ud83d", "no character"),
        (r"\u{110000}", "no character"),
        ("(?s).", "group"),
        ("(?x) a", "group"),
        ("(?#note)a", "group"),
        ("^\x00$", "U+0000"),
        (r"^[\x00]$", "U+0000 only"),
        (r"^[^\s\S]$", "lets no character through"),
    ],
)
def test_refused_by_name_and_place(pattern: str, words: str) -> None:
    with pytest.raises(ConstraintFault, match=re.escape(words)) as caught:
        check_schema({"properties": {"x": {"type": "string", "pattern": pattern}}})
    assert (caught.value.path, caught.value.keyword) == (("properties", "x"), "pattern")
    with pytest.raises(ConstraintFault, match=re.escape(words)) as caught:
        check_schema({"type": "object", "patternProperties": {pattern: {}}})
    assert (caught.value.path, caught.value.keyword) == ((), "patternProperties")


@pytest.mark.parametrize(
    ("answer", "fits"), [(rb'{"a":null}', True), (rb'{"\\":null}', True), (rb'{"\"":null}', False)]
)
def test_keys_that_match_patterns(answer: bytes, fits: bool) -> None:
    schema = {"type": "object", "patternProperties": {'^[^"]$': {"type": "null"}}, "additionalProperties": False}
    matcher = LLMatcher(TOKENIZER, _schema_text(closed(schema)), log_level=0)
    assert (matcher.try_consume_tokens(list(answer)) == len(answer)) is fits


def test_the_same_pattern_twice_is_no_pattern_lost() -> None:
    with pytest.raises(ConstraintFault, match="same pattern twice"):
        check_schema({"patternProperties": {"^a": {}, r"^\x61": {"type": "null"}}})


MEMBERS = st.one_of(
    st.sampled_from(["\\d", "\\W", "\\s", "\\S", "\\\\", "\\]", '"', "&&", "[", "a-f", "\\x01-\\x1f", "\\x00-!", "é"]),
    st.characters(codec="ascii", exclude_characters="\\]^-[:\x00"),
)


CHARACTERS = st.characters(codec="utf-8", exclude_characters="\x00")


@given(st.lists(MEMBERS, min_size=1, max_size=4), st.booleans(), CHARACTERS)
def test_classes_agree_with_another_engine(members: list[str], is_negated: bool, text: str) -> None:
    """Python's `re`, told the ASCII meaning of its classes; what it takes for white space differs, so no such text."""
    if text.isspace() or text in "\ufeff\x1c\x1d\x1e\x1f\x85":
        return
    body = "".join(members)
    escaped = body.replace("[", "\\[").replace("&&", "\\&\\&")
    try:
        ours = lets_through(f"^[{'^' * is_negated}{body}]$", text)
    except PatternFault:
        return
    assert ours == bool(re.fullmatch(f"[{'^' * is_negated}{escaped}]", text, re.ASCII | re.DOTALL))


@given(st.text(max_size=12))
def test_any_text_is_written_without_nul_or_refused(pattern: str) -> None:
    with contextlib.suppress(PatternFault):
        assert "\x00" not in rust_pattern(pattern)
