"""What an answer must be: the fields that say so, and what is wrong with them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from reame.api.openapi_parts import WISHES
from reame.api.schema import Limits
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.api.schema_format import OWN_FIELDS
from reame.api.schema_native import read_native
from reame.core.constraint import Constraint
from reame.core.request import Call, Sampling
from reame.errors import RequestError

LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100)
SCHEMA = {"type": "object", "properties": {"b": {"type": "integer"}, "a": {"const": "é"}}}
TEXT = '{"type":"object","properties":{"b":{"type":"integer"},"a":{"const":"é"}}}'


def calls(**fields: Any) -> list[Call]:
    """Of the same fields in a chat and in a completion."""
    chat = {"messages": [{"role": "user", "content": "hi"}], **fields}
    completion = {"prompt": "hi", **fields}
    return [
        read_chat(json.dumps(chat).encode(), LIMITS).call,
        read_completion(json.dumps(completion).encode(), LIMITS).call,
    ]


def asked(**fields: Any) -> tuple[Constraint | None, str]:
    first, second = calls(**fields)
    assert (first.constraint, first.constraint_field) == (second.constraint, second.constraint_field)
    return first.constraint, first.constraint_field


def as_schema(**json_schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": json_schema}}


OF_SCHEMA = Constraint("json_schema", TEXT)
FIELD = "response_format.json_schema.schema"


@pytest.mark.parametrize(
    ("fields", "constraint", "field"),
    [
        ({}, None, ""),
        ({"response_format": None}, None, ""),
        ({"response_format": {"type": "text"}}, None, ""),
        ({"reame": {"answers": False}}, None, ""),
        ({"response_format": {"type": "json_object"}}, Constraint("json_object"), "response_format"),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, OF_SCHEMA, "response_format.schema"),
        (as_schema(name="p", schema=SCHEMA, strict=True), OF_SCHEMA, FIELD),
        (as_schema(name="p", schema=SCHEMA, strict=False, description="a person"), OF_SCHEMA, FIELD),
        (as_schema(schema=SCHEMA), OF_SCHEMA, FIELD),
        (as_schema(schema=True), Constraint("json_schema", "true"), FIELD),
        ({"reame": {"regex": "a+"}}, Constraint("regex", "a+"), "reame.regex"),
        ({"reame": {"choice": ["a", "b", "a"]}}, Constraint("choice", '["a","b"]'), "reame.choice"),
        ({"reame": {"grammar": 'root ::= "a"'}}, Constraint("grammar", 'root ::= "a"'), "reame.grammar"),
        ({"guided_json": SCHEMA}, OF_SCHEMA, "guided_json"),
        ({"guided_json": json.dumps(SCHEMA)}, OF_SCHEMA, "guided_json"),
        ({"guided_regex": "a"}, Constraint("regex", "a"), "guided_regex"),
        ({"guided_choice": ["yes"]}, Constraint("choice", '["yes"]'), "guided_choice"),
        ({"guided_grammar": 'start: "a"'}, Constraint("grammar", 'start: "a"'), "guided_grammar"),
        ({"structured_outputs": {"json": SCHEMA}}, OF_SCHEMA, "structured_outputs.json"),
        ({"structured_outputs": {"regex": "a"}}, Constraint("regex", "a"), "structured_outputs.regex"),
        ({"structured_outputs": {"json_object": True}}, Constraint("json_object"), "structured_outputs.json_object"),
        ({"grammar": ""}, None, ""),
        ({"json_schema": SCHEMA}, OF_SCHEMA, "json_schema"),
        ({"grammar": 'root ::= "a"'}, Constraint("grammar", 'root ::= "a"'), "grammar"),
    ],
)
def test_what_is_asked_for(fields: dict[str, Any], constraint: Constraint | None, field: str) -> None:
    assert asked(**fields) == (constraint, field)


def test_llama_servers_own_endpoint_takes_them_too() -> None:
    body = {"prompt": "hi", "json_schema": SCHEMA}
    assert read_native(json.dumps(body).encode(), LIMITS).call.constraint == OF_SCHEMA


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"response_format": []}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": 1}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": SCHEMA["type"]}}, "response_format.json_schema"),
        (as_schema(name="p"), FIELD),
        (as_schema(name="two words", schema=SCHEMA), "response_format.json_schema.name"),
        (as_schema(name="", schema=SCHEMA), "response_format.json_schema.name"),
        (as_schema(name="x" * 65, schema=SCHEMA), "response_format.json_schema.name"),
        (as_schema(name="p", schema=SCHEMA, strict="yes"), "response_format.json_schema.strict"),
        (as_schema(name="p", schema=[SCHEMA]), FIELD),
        (as_schema(name="p", schema="not JSON"), FIELD),
        ({"reame": {"regex": ""}}, "reame.regex"),
        ({"reame": {"regex": 5}}, "reame.regex"),
        ({"reame": {"choice": []}}, "reame.choice"),
        ({"reame": {"choice": "a"}}, "reame.choice"),
        ({"reame": {"choice": ["a", ""]}}, "reame.choice"),
        ({"reame": {"choice": ["a", 1]}}, "reame.choice"),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": "[" * 100_000}, "guided_json"),
        ({"guided_json": '{"type": "string", "type": "null"}'}, "guided_json"),
        ({"guided_json": '{"minimum": NaN}'}, "guided_json"),
        ({"guided_json": '{"const": "\\ud800"}'}, "guided_json"),
        (as_schema(schema='{"not": ' * 64 + "{}" + "}" * 64), FIELD),
        (as_schema(schema={"enum": [f"label {n}" for n in range(30_000)]}), FIELD),
        ({"response_format": {"type": "json_object", "schema": {"pattern": "x" * 262_144}}}, "response_format.schema"),
        ({"reame": {"choice": ["x" * 262_144]}}, "reame.choice"),
        ({"reame": {"regex": "x" * 262_145}}, "reame.regex"),
        ({"structured_outputs": "a"}, "structured_outputs"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"json_object": 1}}, "structured_outputs.json_object"),
        ({"reame": {"regex": "a", "choice": ["a"]}}, "reame.choice"),
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
    ],
)
def test_a_wrong_one_names_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as caught:
        asked(**fields)
    assert (caught.value.status, caught.value.param) == (400, field)


def test_equal_schemas_are_equal_constraints_and_the_order_of_keys_counts() -> None:
    spaced = json.loads(json.dumps(SCHEMA, indent=4))
    turned = {**SCHEMA, "properties": dict(reversed(SCHEMA["properties"].items()))}  # type: ignore[attr-defined]
    assert asked(guided_json=spaced) == asked(guided_json=SCHEMA)
    assert asked(guided_json=turned) != asked(guided_json=SCHEMA)


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"reame": {"regexp": "abc"}}, "reame.regexp", "did you mean regex?"),
        ({"reame": {"colour": 1}}, "reame.colour", "is none of regex, choice"),
        ({"structured_outputs": {"jsn": {}}}, "structured_outputs", "names none of json, regex"),
    ],
)
def test_a_slip_is_never_an_answer_without_its_form(fields: dict[str, Any], param: str, words: str) -> None:
    for read in (lambda: calls(**fields), lambda: read_native(json.dumps({"prompt": "a", **fields}).encode(), LIMITS)):
        with pytest.raises(RequestError, match=re.escape(words)) as caught:
            read()
        assert caught.value.param == param


def test_all_wishes_that_are_described_are_known() -> None:
    assert set(OWN_FIELDS) == set(WISHES)
