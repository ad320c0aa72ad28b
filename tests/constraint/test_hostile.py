"""What would take the daemon's time, memory or life, and what is merely wrong: a clear 400, and nobody else notices."""

from __future__ import annotations

import json
from functools import reduce
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from walking import of_schema

from reame.core.constraint import Constraint
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler

WIDE = [f"p{n}" for n in range(1000)]
GOOD = of_schema({"const": "still alive"})


def of_properties(**properties: Any) -> Constraint:
    return of_schema({"type": "object", "properties": properties})


def nested(levels: int, inmost: Any) -> Any:
    return reduce(lambda schema, _: {"type": "object", "properties": {"x": schema}}, range(levels), inmost)


def chain(number: int) -> str:
    rules = "\n".join(f'r{each}: "a" r{each + 1}' for each in range(number))
    return f'start: r0\n{rules}\nr{number}: "b"'


PATTERNS = [{"type": "string", "pattern": f"^(..)*a.{{{n}}}$"} for n in range(1, 30)]
REFERENCES = [{"$ref": f"#/$defs/a{n}"} for n in range(31)]
SHARED = {f"a{n + 1}": {"anyOf": [before, {"allOf": [before, before]}]} for n, before in enumerate(REFERENCES[:30])}
SLOW_GBNF = "\n".join(f"a{n} ::= a{n + 1}" for n in range(6000)) + '\na6000 ::= "x"\nroot ::= a0'


def refusal(compiler: ConstraintCompiler, constraint: Constraint) -> RequestError:
    with pytest.raises(RequestError) as caught:
        compiler.compile(constraint)
    assert caught.value.status == 400
    assert len(caught.value.message) < 700
    return caught.value


@pytest.mark.parametrize(
    ("schema", "param", "words"),
    [
        (nested(2, {"type": "string", "pattern": "(?=x)"}), "properties.x.properties.x.pattern", "look-ahead"),
        (nested(1, {"type": "string", "pattern": "\\bfoo"}), "properties.x.pattern", "word boundary"),
        (nested(1, {"type": "string", "pattern": "^a\\\\!$("}), "properties.x.pattern", "unclosed group"),
        (nested(1, {"type": "wat"}), "properties.x.type", "must be one or more of"),
        (nested(28, {"type": "wat"}), f"{'properties.x.' * 28}type", "must be one or more of"),
        (nested(1, {"not": {}}), "properties.x.not", "`not` in the schema at $.properties.x is not supported"),
        (nested(1, {"$ref": "#/$defs/none"}), "properties.x.$ref", "leads nowhere"),
        (nested(1, {"$ref": "http://example.com/a.json"}), "properties.x.$ref", "same schema"),
        ({"type": "string", "minLenght": 3}, "minLenght", "did you mean minLength?"),
        ({"type": "string", "wat": 3}, "wat", "not a known keyword"),
        ({"type": "object", "x-guidance": {"lenient": True}}, "x-guidance", "not a known keyword"),
        ({"type": "array", "uniqueItems": True}, "uniqueItems", "not supported"),
        ({"type": "string", "format": "idn-email"}, "format", "supported only as one of"),
        ({"type": "integer", "multipleOf": 123456789}, "multipleOf", "20000"),
        ({"type": "integer", "multipleOf": 1e30}, "multipleOf", "20000"),
        (nested(1, {"type": "object", "required": [{"x": 1}]}), "properties.x.required", "must be a list of strings"),
        (nested(1, {"minProperties": 1, "required": 5}), "properties.x.required", "must be a list"),
        ({"const": 2**60}, "const", "53 bits"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "maximum", "no value"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "oneOf", "exclude each other"),
        ({"type": "object", "patternProperties": {"^a": {}, "^ab": {}}}, "patternProperties", "not disjoint"),
        ({"type": "object", "minProperties": 3}, "minProperties", "not supported"),
        ({"$ref": "#"}, "$ref", "no text"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, None, "no text"),
        ({"$defs": SHARED | {"a0": {"type": "null"}}, **REFERENCES[30]}, None, "too large"),
        ({"allOf": PATTERNS}, None, "too much time or memory"),
        ({"type": "object", "properties": {f"p{n}": {} for n in range(1001)}}, "properties", "at most 1000"),
        ({"type": "object", "properties": {name: {} for name in WIDE}}, None, "too much open at a time"),
        ({"enum": [f"{'x' * 80} {n}" for n in range(60_000)]}, None, "at most 262144"),
        (False, None, "no value"),
        ({"properties": []}, "properties", "must be an object"),
        ({"items": 5}, "items", "must be an object, true or false"),
        ({"required": "a"}, "required", "must be a list"),
        ({"maxLength": -1}, "maxLength", "at least 0"),
        ({"type": []}, "type", "one or more"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_held_to(
    compiler: ConstraintCompiler, schema: Any, param: str | None, words: str
) -> None:
    error = refusal(compiler, of_schema(schema))
    assert words in error.message
    assert param is None or error.param == f".{param}"
    assert compiler.matcher(GOOD).forced()


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (Constraint("regex", "a("), "unclosed group"),
        (Constraint("regex", "(?=x)a"), "look-ahead"),
        (Constraint("regex", "(" * 5000 + "a" + ")" * 5000), "not supported"),
        (Constraint("regex", "[^\\s\\S]"), "no text"),
        (Constraint("choice", json.dumps([f"label {n}" for n in range(10_001)])), "10000"),
        (Constraint("grammar", 'root:=="x"'), "not supported"),
        (Constraint("grammar", 'other ::= "x"'), "root"),
        (Constraint("grammar", "root ::= nowhere"), "nowhere"),
        (Constraint("grammar", f'root ::= {"(" * 5000}"a"{")" * 5000}'), "recursion"),
        (Constraint("grammar", SLOW_GBNF), "too much time or memory"),
        (Constraint("grammar", 'other: "x"'), "no start rule"),
        (Constraint("grammar", "start: start"), "no text"),
        (Constraint("grammar", "start: <|im_end|>"), "special token"),
        (Constraint("grammar", "start: <[2]>"), "special token"),
        (Constraint("grammar", 'start: %json {"not": {}}'), "not"),
        (Constraint("grammar", chain(9_000)), "too much time or memory"),
        (Constraint("grammar", "x" * 300_000), "at most 262144"),
        (Constraint("tools", "5"), "cannot be read"),  # as nobody sends it: for whatever is checked nowhere
    ],
)
def test_others_that_cannot_be_held_to(compiler: ConstraintCompiler, constraint: Constraint, words: str) -> None:
    assert words in refusal(compiler, constraint).message
    assert compiler.matcher(GOOD).forced()


@pytest.mark.parametrize(
    "constraint",
    [
        of_schema({"type": "string", "pattern": "\\d{1000000}"}),
        of_schema({"type": "string", "pattern": "(a*)*b"}),
        of_schema({"type": "string", "minLength": 20_000, "maxLength": 20_000}),
        of_schema({"type": "array", "items": {"type": "integer"}, "minItems": 10**12}),
        of_schema({"enum": [f"label number {n}" for n in range(500)]}),
        of_schema({"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(400)}}),
        of_schema({"type": "object", "properties": {f"p{n}": {} for n in range(1000)}, "required": WIDE}),
        of_properties(**{'h"é\n\\': {"type": "string", "description": 'quotes " \\ \n 😀'}}),
        Constraint("regex", "\\d{1000000}"),
        Constraint("grammar", 'start: start "a" | "b"'),
        Constraint("grammar", 'start: "<a>" // <b>\n | /<x>/'),
        Constraint("grammar", 'root ::= "<a>" | [0-9]{1,3}'),
    ],
)
def test_large_and_odd_ones_work(compiler: ConstraintCompiler, constraint: Constraint) -> None:
    assert compiler.matcher(constraint).mask().any()


def test_memory_stays_flat(compiler: ConstraintCompiler) -> None:
    compiler.compile(GOOD)
    process = psutil.Process()
    before = process.memory_info().rss
    for number in range(300):
        with pytest.raises(RequestError):
            compiler.compile(of_properties(**{f"p{number}": {"type": "string", "pattern": "(?=x)"}}))
        compiler.compile(of_schema({"enum": [f"label {number} {n}" for n in range(200)]}))
    assert process.memory_info().rss - before < 64 << 20
