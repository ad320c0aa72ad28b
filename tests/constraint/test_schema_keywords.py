"""JSON Schema's own test suite: what is accepted is held to, and `docs/structure.md` tells what is not.

`python tests/constraint/test_schema_keywords.py` writes the table there anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from walking import Walker, of_schema

from reame.constraint.schema_check import ANNOTATIONS, FORMATS, SUPPORTED, UNSUPPORTED
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler
    from reame.constraint.tokens import Tokens
    from reame.engine.base import Vocabulary

DOCS = Path(__file__).parents[2] / "docs" / "structure.md"
BEGIN, END = "<!-- keywords -->\n", "<!-- end of keywords -->\n"
SUITE: dict[str, list[Any]] = json.loads(Path(__file__).with_name("official_schemas.json").read_text("utf-8"))
LIMITS = {
    "$ref": "within the schema, by a pointer such as `#/$defs/name`; recursion too",
    "oneOf": "where its schemas visibly exclude each other, by type or by a required property with different `const`",
    "allOf": "what it demands together must be one language that can be written down: not every combination is",
    "enum": "integers of at most 53 bits; the keys of objects in the order given",
    "const": "as `enum`",
    "format": ", ".join(f"`{name}`" for name in FORMATS) + "; their form, not leap years",
    "pattern": "no look-around, back-references or word boundaries; found anywhere in the text unless anchored",
    "patternProperties": "patterns that no key can match two of",
    "properties": "in the order given, at most 1,000",
    "minProperties": "up to the number of `required` ones; 1 also where nothing but the `properties` may stand",
    "maxProperties": "0 or 1, or where all `properties` are `required`",
    "multipleOf": "its digits up to 20,000",
    "items": "a schema, or a list of them as in older drafts",
}


def compiled(compiler: ConstraintCompiler, schema: Any) -> bool:
    try:
        compiler.compile(of_schema(schema))
    except RequestError:
        return False
    return True


@pytest.mark.parametrize("name", ["Prüfung", "List[int]", "Foo<Bar>", "x y", "a~1b", "50%25", "C%23", "C#", "Plain"])
def test_a_definition_may_have_any_name(compiler: ConstraintCompiler, name: str) -> None:
    key = name.replace("~1", "/").replace("%25", "%").replace("%23", "#")
    assert compiled(compiler, {"$ref": f"#/$defs/{name}", "$defs": {key: {"type": "integer"}}})


@pytest.mark.parametrize(
    "draft",
    [
        "https://json-schema.org/draft-07/schema#",
        "http://json-schema.org/draft-07/schema#",
        "http://json-schema.org/schema#",
        "http://json-schema.org/draft/2020-12/schema",
        "https://spec.openapis.org/oas/3.1/dialect/base",
    ],
)
def test_any_draft_may_be_named(compiler: ConstraintCompiler, draft: str) -> None:
    assert compiled(compiler, {"$schema": draft, "type": "object", "properties": {"a": {"type": "integer"}}})


def test_alternatives_beside_a_reference_leave_each_others_properties(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary
) -> None:
    schema = {
        "$ref": "#/$defs/A",
        "anyOf": [{"properties": {"b": {"type": "integer"}}}, {"properties": {"c": {"type": "integer"}}}],
        "$defs": {"A": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    }
    walker = Walker(tokens, vocabulary.piece)
    walks = [walker.walk(compiler.matcher(of_schema(schema)), seed) for seed in range(9)]
    assert any(walk.ended for walk in walks)
    for walk in walks:
        if walk.ended:
            Draft202012Validator(schema).validate(json.loads(walk.text))


@pytest.mark.parametrize("keyword", [name for name in SUITE if name])
def test_what_is_accepted_is_held_to(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary, keyword: str
) -> None:
    walker = Walker(tokens, vocabulary.piece)
    schemas = [schema for schema in SUITE[keyword] if _can_judge(schema) and compiled(compiler, schema)]
    ended = 0
    for schema in schemas:
        walks = [walker.walk(compiler.matcher(of_schema(schema)), seed) for seed in range(3)]
        for walk in filter(lambda walk: walk.ended, walks):
            Draft202012Validator(schema).validate(json.loads(walk.text))
            ended += 1
    assert ended >= len(schemas)


def _can_judge(schema: Any) -> bool:
    """Python's regular expressions, with which jsonschema looks, have no classes such as \\p{L}."""
    return "\\\\p" not in json.dumps(schema)


def test_every_refusal_says_where(compiler: ConstraintCompiler) -> None:
    for keyword in UNSUPPORTED:
        with pytest.raises(RequestError) as caught:
            compiler.compile(of_schema({"type": "object", "properties": {"here": {keyword: [{}]}}}))
        assert caught.value.param == f".properties.here.{keyword}"
        assert f"`{keyword}` in the schema at $.properties.here" in caught.value.message


def test_the_table_is_what_is_done() -> None:
    before, rest = DOCS.read_text("utf-8").split(BEGIN)
    table, _ = rest.split(END)
    assert table == keyword_table(), "run: python tests/constraint/test_schema_keywords.py"
    assert before


def keyword_table() -> str:
    rows = [f"| `{name}` | {LIMITS.get(name, 'yes')} |" for name in SUPPORTED]
    refused, ignored = (", ".join(f"`{name}`" for name in names) for names in (UNSUPPORTED, ANNOTATIONS))
    return "\n".join(
        [
            "| keyword | supported |",
            "|---|---|",
            *rows,
            f"| {ignored}, and what begins with `x-` | accepted: they do not say what is valid |",
            f"| {refused} | no: 400 |",
            "| any other | 400: it may be a slip of the pen |",
            "",
        ]
    )


if __name__ == "__main__":
    before, rest = DOCS.read_text("utf-8").split(BEGIN)
    DOCS.write_text(before + BEGIN + keyword_table() + END + rest.split(END)[1], "utf-8")
