"""Patterns mean what JSON Schema says, whatever dialect the compiler reads: by hand, and against Python's re."""

from __future__ import annotations

import contextlib
import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from llguidance import LLMatcher, LLTokenizer

from reame.constraint.fault import ConstraintFault
from reame.constraint.grammar import _checked, _schema_text, fault_in
from reame.constraint.pattern import PatternFault, rust_pattern
from reame.constraint.schema_check import check_schema

TOKENIZER = LLTokenizer("byte")


def lets_through(pattern: str, text: str, **more: object) -> bool:
    matcher = LLMatcher(TOKENIZER, _schema_text({"type": "string", "pattern": pattern, **more}), log_level=0)
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
        (r"^\d\D\w\W$", ["1a_-", "9éa."], ["٣a_-", "1a_b", "1aé."]),
        (r"^[a-z&&[^b]$", ["w", "&", "[", "^", "b"], ["]"]),
        (r"^[+--]$", ["+", ",", "-"], ["."]),
        (r"^[a-c~~d-]$", ["b", "~", "d", "-"], ["e"]),
        (r"^[\]\-\^]$", ["]", "-", "^"], ["\\", "a"]),
        (r"^[\d-x]$", ["5", "-", "x"], ["y"]),
        (r"^[\b]$", ["\b"], ["b"]),
        (r"^\x41\u0042\u{43}\cJ\ud83d\ude00$", ["ABC\n😀"], ["ABC"]),
        (r"^\$\.\*\/\<\-\ $", ["$.*/<- "], ["x"]),
        (r"^(?<year>\d{4})-(?:0[1-9]|1[0-2])$", ["2026-11"], ["2026-13"]),
        (r"(?i)^[a-c]x$", ["AX", "bx"], ["dx"]),
        (r"(?i)^[^a-z]$", ["1", "é"], ["a", "A", "\u017f"]),
        (r"(?i)^\W\D\S$", ["-x-"], ["sxx", "kxx", "-1-", "-x "]),
        (r"^(?i:[^x\W])y$", ["ay"], ["Xy", "xy", "-y", "aY"]),
        (r"(?s)^.\x{41}$", ["\nA"], ["A"]),
        (r"^[\s\S]$", ["\n", '"', "\\", "é"], ["ab"]),
        (r"^[^\uE000-\uF8FF\uD7FE]$", ["a", "é", "\ufffd"], ["\ue000", "\ud7fe"]),
        (r"^[\u0020-\uD7FF\uE000-\uFFFD\uD800\uDC00-\uDBFF\uDFFF\n]$", ["a", "😀", "\n"], ["\ufffe", "\r"]),
        (r"^[\w--a]$", ["-", "a", "Z"], ["/", ":"]),
        (r"^\pL$", ["é"], ["1"]),
        (r"^(?P<année>\d{2,})+?$", ["12"], ["1"]),
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
        ("(?=x)", "look-ahead"),
        ("(?<!x)", "look-behind"),
        (r"\bfoo", r"word boundary (\b)"),
        (r"(a)\1", r"back-reference (\1)"),
        (r"(?<x>a)\k<x>", r"back-reference (\k)"),
        ("a{,3}", r"write \{"),
        ("a{2, 5}", r"write \{"),
        (r"\y", r"has \y"),
        (r"\ud83d", "no character"),
        (r"\u{110000}", "no character"),
        ("a(?s).", "group"),
        ("(?x) a", "group"),
        ("(?#note)a", "group"),
        ("^\x00$", "U+0000"),
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
    matcher = LLMatcher(TOKENIZER, _schema_text(schema), log_level=0)
    assert (matcher.try_consume_tokens(list(answer)) == len(answer)) is fits


def test_the_same_pattern_twice_is_no_pattern_lost() -> None:
    with pytest.raises(ConstraintFault, match="same pattern twice"):
        check_schema({"patternProperties": {"^a": {}, r"^\x61": {"type": "null"}}})


MEMBERS = st.one_of(
    st.sampled_from(["\\d", "\\W", "\\s", "\\S", "\\\\", "\\]", '"', "&&", "[", "a-f", "\\x01-\\x1f", "\\x00-!", "é"]),
    st.characters(codec="ascii", exclude_characters="\\]^-[:\x00"),
)
CHARACTERS = st.one_of(
    st.sampled_from('"\\azAZ-[&\x01\x1f 09_~éK'), st.characters(codec="utf-8", exclude_characters="\x00")
)


@given(st.lists(MEMBERS, min_size=1, max_size=4), st.booleans(), st.booleans(), CHARACTERS)
def test_classes_agree_with_another_engine(
    members: list[str], is_negated: bool, folds: bool, text: str
) -> None:
    """Python's `re`, told the ASCII meaning of its classes; it differs in what is white space, and folds ASCII only."""
    assume(not text.isspace() and text not in "\ufeff\x7f\x85" and not (folds and not text.isascii()))
    body = "".join(members)
    ours = lets_through(f"{'(?i)' * folds}^[{'^' * is_negated}{body}]$", text)
    theirs = body.replace("[", "\\[").replace("&&", "\\&\\&")
    flags = re.ASCII | re.DOTALL | (re.IGNORECASE if folds else re.NOFLAG)
    assert ours == bool(re.fullmatch(f"[{'^' * is_negated}{theirs}]", text, flags))


@given(st.text(alphabet="ab\\[]{}()?*+^-.dWs\"0", max_size=12))
def test_any_text_is_compiled_or_refused(pattern: str) -> None:
    with contextlib.suppress(PatternFault):
        rust_pattern(pattern)


@pytest.mark.parametrize("pattern", ["^x-", "^x"])
def test_faults_below_patterns_are_told_where_they_were_sent(pattern: str) -> None:
    inner = {"oneOf": [{"type": "string", "minLength": 1}, {"type": "string", "maxLength": 9}]}
    with pytest.raises(ConstraintFault) as caught:
        _checked({"type": "object", "patternProperties": {pattern: inner}}, TOKENIZER)
    assert (caught.value.path, caught.value.keyword) == (("patternProperties", pattern), "oneOf")


def test_references_through_patterns_and_to_what_is_no_schema() -> None:
    inner = {"type": "object", "patternProperties": {"^x-/": {"const": 1}}, "additionalProperties": False}
    schema = {**inner, "properties": {"a": {"$ref": "#/patternProperties/^x-~1"}}, "required": ["a"]}
    assert fault_in(_schema_text(_checked(schema, TOKENIZER)), TOKENIZER) == ""
    with pytest.raises(ConstraintFault, match="no schema"):
        check_schema({"$ref": "#/x-defs/a", "x-defs": {"a": {"type": "string", "pattern": '^[^"]$'}}})
    with pytest.raises(ConstraintFault, match="no schema"):
        check_schema({"$ref": "#/default", "default": {"type": "string"}})
