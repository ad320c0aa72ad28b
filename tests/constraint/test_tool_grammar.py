"""Answers that may call tools, or must: what the grammar lets through."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from walking import Walker

from reame.core.constraint import Constraint
from reame.core.tool_calls import Arguments, CallBegins, CallReader, Said
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler
    from reame.constraint.tokens import Tokens
    from reame.engine.base import Vocabulary

SCHEMAS: dict[str, Any] = {
    "weather": {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Oslo"]}, "days": {"$ref": "#/$defs/days"}},
        "required": ["city"],
        "$defs": {"days": {"type": "integer", "minimum": 1, "maximum": 9}},
    },
    "no-arguments": {},
    "any.object": {"type": "object", "additionalProperties": {"type": "boolean"}},
}


def asking(schemas: dict[str, Any], *, must: bool, parallel: bool = True, strict: bool = True) -> Constraint:
    tools = [
        {"number": n, "name": name, "parameters": each, "strict": strict}
        for n, (name, each) in enumerate(schemas.items())
    ]
    return Constraint("tools", json.dumps({"tools": tools, "must": must, "parallel": parallel}))


@pytest.mark.parametrize("parallel", [True, False])
def test_calls_that_must_be_there_are_valid(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary, parallel: bool
) -> None:
    walker = Walker(tokens, vocabulary.piece)
    grammar = compiler.compile(asking(SCHEMAS, must=True, parallel=parallel))
    called = set()
    for seed in range(40):
        walk = walker.walk(grammar.matcher(), seed)
        reader = CallReader()
        parts = reader.take(walk.text.decode())
        arguments = {part.index: part.text for part in parts if isinstance(part, Arguments)}
        names = [part.name for part in parts if isinstance(part, CallBegins)]
        called |= set(names)
        assert not any(isinstance(part, Said) for part in parts)
        if walk.ended:
            assert names
            assert parallel or len(names) == 1
            for index, name in enumerate(names):
                Draft202012Validator(SCHEMAS[name]).validate(json.loads(arguments[index]))
    assert called == set(SCHEMAS)


def test_text_is_free_until_a_call_begins(compiler: ConstraintCompiler, vocabulary: Vocabulary) -> None:
    matcher = compiler.matcher(asking({"weather": SCHEMAS["weather"]}, must=False))
    assert matcher.may_end
    for token in vocabulary.tokenize("Let me look: <tool> <tool_call>", add_special=False, parse_special=False):
        assert matcher.may_end
        matcher.consume(token)
    assert not matcher.may_end
    forced = b"".join(map(vocabulary.piece, matcher.forced())) + b"".join(map(vocabulary.piece, matcher.guess()))
    assert forced.startswith(b'\n{"name": "weather", "arguments": {"city": "')


def test_a_tool_without_arguments_takes_none(compiler: ConstraintCompiler, vocabulary: Vocabulary) -> None:
    matcher = compiler.matcher(asking({"now": {"type": "object", "properties": {}}}, must=True, parallel=False))
    text = b""
    while not matcher.is_over:
        (token, *_) = matcher.forced() or matcher.guess()
        text += vocabulary.piece(token)
        matcher.consume(token)
    assert text == b'<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'


@pytest.mark.parametrize(
    ("schema", "param"),
    [
        ({"type": "object", "properties": {"a": {"not": {}}}}, "[1].function.parameters.properties.a.not"),
        ({"type": "object", "properties": {"a": {"pattern": "(?=x)", "type": "string"}}},
         "[1].function.parameters.properties.a.pattern"),
        ({"type": "object", "x-guidance": {}}, "[1].function.parameters.x-guidance"),
        ({"properties": []}, "[1].function.parameters.properties"),
    ],
)  # fmt: skip
def test_a_fault_in_a_tool_is_found(compiler: ConstraintCompiler, schema: Any, param: str) -> None:
    with pytest.raises(RequestError) as caught:
        compiler.compile(asking({"fine": {}, "faulty": schema}, must=False))
    assert caught.value.param == param


LOOSE: dict[str, dict[str, Any]] = {
    "zod-record": {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "string"}},
    "numbers": {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "format": "int64", "minimum": -(2**63), "maximum": 2**63 - 1},
            "set": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
        },
        "required": ["n", "set"],
    },
    "email": {
        "type": "object",
        "properties": {"to": {"enum": ["a@b", "c@d"], "pattern": "^(?!\\.)(?!.*\\.\\.)[a-z.]+@[a-z]+$"}},
        "required": ["to"],
    },
    "either": {
        "type": "object",
        "properties": {"x": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "string", "minLength": 2}]}},
        "required": ["x"],
    },
    "most": {"type": "object", "properties": {name: {"type": "null"} for name in "abc"}, "maxProperties": 2},
    "patterns": {
        "type": "object", "properties": {"id": {"type": "null"}},
        "patternProperties": {"^a": {"type": "null"}, "b$": {"enum": [1]}}, "additionalProperties": False,
    },
    "large": {"type": "object", "properties": {"id": {"enum": [2**60, 1]}}, "required": ["id"]},
    "vendor": {"type": "object", "properties": {"a": {"type": "boolean", "nullable": True, "widget": "box"}}},
}


@pytest.mark.parametrize("name", LOOSE)
def test_a_tool_that_is_not_strict_is_held_to_what_can_be_held_to(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary, name: str
) -> None:
    walker = Walker(tokens, vocabulary.piece)
    grammar = compiler.compile(asking({name: LOOSE[name]}, must=True, parallel=False, strict=False))
    ended = 0
    for seed in range(20):
        walk = walker.walk(grammar.matcher(), seed)
        parts = CallReader().take(walk.text.decode())
        if walk.ended:
            ended += 1
            arguments = json.loads("".join(part.text for part in parts if isinstance(part, Arguments)))
            without = {"type": "object", "properties": {}} | {
                key: value
                for key, value in LOOSE[name].items()
                if key in ("required", "additionalProperties") and name != "patterns"
            }
            Draft202012Validator(without | {"properties": {key: {} for key in arguments}}).validate(arguments)
    assert ended
    with pytest.raises(RequestError, match=r"not supported|look-ahead|supported only|53 bits|known keyword"):
        compiler.compile(asking({name: LOOSE[name]}, must=True, strict=True))


def test_a_tool_that_is_not_strict_and_no_schema_is_refused(compiler: ConstraintCompiler) -> None:
    for wrong in ({"type": "wat"}, {"type": "object", "required": "a"}, {"$ref": "#/$defs/none"}):
        with pytest.raises(RequestError):
            compiler.compile(asking({"f": wrong}, must=True, strict=False))


def test_with_a_form_an_answer_is_either_of_it_or_calls(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary
) -> None:
    shape = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    source = json.loads(asking({"no-arguments": {}}, must=False).source)
    grammar = compiler.compile(Constraint("tools", json.dumps(source | {"answer": shape})))
    walker, seen = Walker(tokens, vocabulary.piece), set()
    for seed in range(60):
        walk = walker.walk(grammar.matcher(), seed)
        parts = CallReader(either=True).take(walk.text.decode())
        said = "".join(part.text for part in parts if isinstance(part, Said))
        calls = [part.name for part in parts if isinstance(part, CallBegins)]
        assert bool(said) != bool(calls)
        if said and walk.ended:
            assert set(json.loads(said)) >= {"ok"}
        seen.add(bool(said))
    assert seen == {True, False}
    wrong = source | {"answer": {"type": "object", "properties": {"a": {"not": {}}}}}
    with pytest.raises(RequestError) as caught:
        compiler.compile(Constraint("tools", json.dumps(wrong)))
    assert caught.value.param == ".answer.properties.a.not"


def test_arguments_that_may_be_null_are_an_object_all_the_same(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary
) -> None:
    schema = {"type": ["object", "null"], "properties": {"x": {"type": "boolean"}}, "required": ["x"]}
    walker = Walker(tokens, vocabulary.piece)
    grammar = compiler.compile(asking({"a": schema}, must=True))
    for seed in range(10):
        reader = CallReader()
        parts = reader.take(walker.walk(grammar.matcher(), seed).text.decode())
        begun = {part.index: part.text for part in parts if isinstance(part, Arguments)}
        assert all(text.startswith("{") for text in begun.values())
