"""One answer under its constraint, with the real small model's vocabulary."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from llguidance import LLParserLimits
from walking import Walker, of_schema

from reame.constraint.tokens import Cutter
from reame.core.constraint import Constraint
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler
    from reame.constraint.matcher import GrammarMatcher
    from reame.constraint.tokens import Tokens
    from reame.engine.base import Vocabulary


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is no reason to look at less of a draft, unless a test is about that."""
    monkeypatch.setattr("reame.constraint.matcher.PATIENCE_S", float("inf"))


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "kind": {"enum": ["red", "reddish", "green", None]},
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,5}$"}, "maxItems": 3},
        "child": {"$ref": "#/$defs/node"},
    },
    "required": ["name", "age", "kind"],
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
}


@pytest.fixture(scope="module")
def walker(tokens: Tokens, vocabulary: Vocabulary) -> Walker:
    return Walker(tokens, vocabulary.piece)


def cut(vocabulary: Vocabulary, text: str) -> list[int]:
    return vocabulary.tokenize(text, add_special=False, parse_special=False)


def fed(matcher: GrammarMatcher, vocabulary: Vocabulary, text: str) -> GrammarMatcher:
    for token in cut(vocabulary, text):
        matcher.consume(token)
    return matcher


def pieces(vocabulary: Vocabulary, tokens: Any) -> list[bytes]:
    return [vocabulary.piece(int(token)) for token in tokens]


def test_random_walks_end_in_valid_compact_json(compiler: ConstraintCompiler, walker: Walker) -> None:
    grammar = compiler.compile(of_schema(PERSON))
    walks = [walker.walk(grammar.matcher(), seed) for seed in range(100)]
    ended = [walk for walk in walks if walk.ended]
    assert len(ended) > 80
    for walk in ended:
        value = json.loads(walk.text)
        Draft202012Validator(PERSON).validate(value)
        assert len(walk.text) <= len(json.dumps(value, separators=(",", ":"), ensure_ascii=True))
        assert not walk.text.startswith(b" ")
        assert walk.text.endswith(b"}")


def test_what_is_forced_and_what_is_guessed(compiler: ConstraintCompiler, vocabulary: Vocabulary) -> None:
    matcher = compiler.matcher(of_schema(PERSON))
    assert b"".join(pieces(vocabulary, matcher.forced())) == b'{"name'
    assert b"".join(pieces(vocabulary, matcher.guess())) == b'":"'
    for token in matcher.forced():
        matcher.consume(token)
    assert matcher.forced() == ()
    assert b"".join(pieces(vocabulary, matcher.guess())) == b'":"'
    fed(matcher, vocabulary, '":"Bo')
    assert (matcher.forced(), matcher.guess()) == ((), ())


def test_an_answer_is_over_at_its_closing_brace(compiler: ConstraintCompiler, vocabulary: Vocabulary) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    matcher = compiler.matcher(of_schema(schema))
    fed(matcher, vocabulary, '{"a":17')
    assert not matcher.is_over
    assert not matcher.may_end
    fed(matcher, vocabulary, "}")
    assert matcher.is_over
    assert (matcher.forced(), matcher.guess(), matcher.legal_prefix(cut(vocabulary, "}"))) == ((), (), 0)


def test_ends_are_allowed_exactly_when_the_answer_may_end(
    compiler: ConstraintCompiler, vocabulary: Vocabulary, tokens: Tokens
) -> None:
    matcher = compiler.matcher(Constraint("regex", "red(dish)?"))
    ends = np.flatnonzero(tokens.ends)
    assert not matcher.mask()[ends].any()
    fed(matcher, vocabulary, "red")
    assert matcher.mask()[ends].all()
    assert not matcher.is_over
    fed(matcher, vocabulary, "d")
    assert not matcher.mask()[ends].any()


def test_control_tokens_are_never_part_of_an_answer(
    compiler: ConstraintCompiler, vocabulary: Vocabulary, tokens: Tokens
) -> None:
    matcher = compiler.matcher(Constraint("regex", "(?s:.*)"))
    silent = [token for token in range(tokens.size) if not vocabulary.piece(token) and not tokens.ends[token]]
    assert silent
    assert not matcher.mask()[silent].any()
    assert matcher.mask().sum() > tokens.size * 0.99
    assert matcher.legal_prefix(silent[:1]) == 0


def test_the_legal_prefix_of_a_draft(compiler: ConstraintCompiler, vocabulary: Vocabulary, tokens: Tokens) -> None:
    matcher = compiler.matcher(Constraint("regex", "a b c d[0-9]+"))
    right = cut(vocabulary, "a b c d")
    assert matcher.legal_prefix(right) == len(right)
    assert matcher.legal_prefix([*right, *cut(vocabulary, "x")]) == len(right)
    assert matcher.legal_prefix([*right, tokens.size + 5, *right]) == len(right)
    assert matcher.legal_prefix([]) == 0
    assert matcher.legal_prefix([int(np.flatnonzero(tokens.ends)[0])]) == 0


@pytest.mark.parametrize("seed", range(10))
def test_what_is_forced_depends_on_the_consumed_tokens_only(
    compiler: ConstraintCompiler, walker: Walker, vocabulary: Vocabulary, seed: int
) -> None:
    grammar = compiler.compile(of_schema(PERSON))
    walk = walker.walk(grammar.matcher(), seed)
    asked, silent = grammar.matcher(), grammar.matcher()
    for place, token in enumerate(walk.tokens):
        asked.mask()
        asked.guess()
        asked.legal_prefix(walk.tokens[place:])
        forced = asked.forced()
        assert silent.forced() == forced
        assert asked.legal_prefix(walk.tokens[place:]) == len(walk.tokens) - place
        if forced:
            assert asked.legal_prefix(forced) == len(forced)
            assert asked.mask()[forced[0]]
        asked.consume(token)
        silent.consume(token)


def test_answers_do_not_disturb_each_other(compiler: ConstraintCompiler, walker: Walker) -> None:
    grammar = compiler.compile(of_schema(PERSON))
    alone = [walker.walk(grammar.matcher(), seed) for seed in range(3)]
    matchers = [grammar.matcher() for _ in range(3)]
    assert [walker.walk(matcher, seed) for seed, matcher in enumerate(matchers)] == alone


def test_a_wrong_token_ends_the_request_only(compiler: ConstraintCompiler, vocabulary: Vocabulary) -> None:
    grammar = compiler.compile(of_schema(PERSON))
    matcher = grammar.matcher()
    with pytest.raises(RequestError):
        fed(matcher, vocabulary, "no")
    assert fed(grammar.matcher(), vocabulary, '{"name":"Bo"').mask().any()


class SpacedVocabulary:
    """As SentencePiece does it: a space before every text. Its tokens are the pieces."""

    pieces = (b"", b" a", b" ab", b"a", b"b", b"c", b"ab", b" ")

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        first = 2 if text.startswith("ab") else 1
        return [first, *(self.pieces.index(letter.encode()) for letter in text[first:])]

    def piece(self, token: int) -> bytes:
        return self.pieces[token]


@pytest.mark.parametrize("text", ["a", "ab", "abc", "aab"])
def test_the_space_that_some_vocabularies_add_is_taken_away(text: str) -> None:
    vocabulary = SpacedVocabulary()
    tokens = Cutter(vocabulary, vocabulary.pieces)(text)
    assert b"".join(map(vocabulary.piece, tokens)) == text.encode()


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('root ::= word " is " word "."\nword ::= [a-zA-Z ]+', "The house is red."),
        ('root ::= line+\nline ::= "- " [^\\n]+ "\\n"', "- one\n- two\n"),
        ('root ::= "\\u0041BC" [\\u00C0-\\u017F] "caf\\u00e9"', "ABC\u00e9caf\u00e9"),
        ('root ::= "(" root ")" | "x"', "((x))"),
    ],
)
def test_gbnf_means_what_llama_cpp_makes_of_it(
    compiler: ConstraintCompiler, vocabulary: Vocabulary, tokens: Tokens, source: str, text: str
) -> None:
    matcher = fed(compiler.compile(Constraint("grammar", source)).matcher(), vocabulary, text)
    assert matcher.is_over or (matcher.mask() & tokens.ends).any()


def test_a_lexer_that_others_have_filled_is_no_fault_of_this_answer(
    compiler: ConstraintCompiler, vocabulary: Vocabulary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came thirteen letters before decides, so that each answer makes states that no other one had."""
    monkeypatch.setattr("reame.constraint.compiler.LIMITS", LLParserLimits(max_lexer_states=1500))
    grammar = compiler.compile(Constraint("regex", "(a|b)*a(a|b){12}c"))
    letters = {letter: vocabulary.tokenize(letter, add_special=False, parse_special=False)[-1] for letter in "ab"}

    def write(matcher: GrammarMatcher, seed: int, length: int) -> int:
        """How many letters could be written."""
        random = np.random.default_rng(seed)
        for place in range(length):
            with suppress(RequestError):
                assert matcher.mask()[letters["a"]]
                matcher.consume(letters["ab"[random.integers(2)]])
                continue
            return place
        return length

    beside = grammar.matcher()
    assert write(beside, 0, 20) == 20
    assert write(grammar.matcher(), 1, 5000) < 5000, "one answer alone is too much"
    assert write(beside, 2, 20) == 20, "who shared the lexer goes on"
    assert [write(grammar.matcher(), seed, 20) for seed in (3, 4)] == [20, 20], "and others begin"


@pytest.mark.parametrize(("patience", "looked_at"), [(0.0, 4), (float("inf"), 40)])
def test_a_draft_is_not_looked_at_for_long(
    compiler: ConstraintCompiler,
    vocabulary: Vocabulary,
    monkeypatch: pytest.MonkeyPatch,
    patience: float,
    looked_at: int,
) -> None:
    """All of it is legal; but nobody else can do anything meanwhile."""
    monkeypatch.setattr("reame.constraint.matcher.PATIENCE_S", patience)
    grammar = compiler.compile(Constraint("grammar", 'start: s\ns: s s | "a"'))
    (token,) = vocabulary.tokenize("aaaa", add_special=False, parse_special=False)
    matcher = grammar.matcher()
    for _ in range(10):
        matcher.consume(token)
    assert matcher.legal_prefix([token] * 40) == looked_at
    assert matcher.legal_prefix([token] * 3) == 3
