"""What the description of a request forbids, the reader of that request refuses: in every field, list and object that
is described, one wrong value at a time."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from reame.api.openapi import document
from reame.api.schema import Limits
from reame.api.schema_anthropic import read_anthropic
from reame.api.schema_batches import read_batch
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.api.schema_embeddings import read_embeddings
from reame.api.schema_native import read_infill, read_native, read_text, read_tokens
from reame.api.schema_responses import read_responses
from reame.api.schema_warm import read_warm
from reame.core.request import Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100, spelled=lambda _: b"x")
COMPONENTS = document(vocab_size=100, most_choices=4)["components"]
READERS: dict[str, Callable[[bytes, Limits], Any]] = {
    "ChatRequest": read_chat,
    "CompletionRequest": read_completion,
    "MessagesRequest": read_anthropic,
    "ResponsesRequest": read_responses,
    "EmbeddingsRequest": read_embeddings,
    "WarmRequest": read_warm,
    "NativeRequest": read_native,
    "InfillRequest": read_infill,
    "TokenizeRequest": read_text,
    "DetokenizeRequest": read_tokens,
    "BatchRequest": lambda raw, _: read_batch(raw),
}
WRONG = (
    *(None, True, 0, -1, 1.5, "", "x", [], {}, [None], [{}], ["x"], [[]], [1], {"type": "x"}, {"a": None}),
    *(10**7, -(10**20), [None, None], "z" * 1100, ["a"] * 70),
)
WORDS = {"hd": "24h", "A-Z": "name"}
"""Texts that fit the patterns that there are, by a part of each."""
NEEDS = (
    "needs", "must be that of a function in tools", "must not be empty", "end with tool calls", "is not valid JSON",
    "both there", "tool_use",
)  # fmt: skip
"""A schema does not tell what one field asks of another, or which texts are JSON."""


def fitting(schema: dict[str, Any]) -> list[Any]:
    """Values that fit: of each alternative and each field one, where there are several."""
    schema = COMPONENTS["schemas"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema
    if "enum" in schema:
        return list(schema["enum"])
    if "anyOf" in schema and "type" not in schema:
        return [value for each in schema["anyOf"] for value in fitting(each)]
    match schema["type"]:
        case "array":
            return [[1, 0.5]] if "prefixItems" in schema else [[value] for value in fitting(schema["items"])]
        case "object":
            return list(objects(schema))
        case "string":
            return [next((word for part, word in WORDS.items() if part in schema.get("pattern", "")), "x")]
    return {"integer": [1], "number": [0.5], "boolean": [True], "null": []}[schema["type"]]


def objects(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    properties = schema["properties"]
    least = {name: fitting(properties[name])[0] for name in schema.get("required", ())}
    yield least
    if isinstance(schema.get("additionalProperties"), dict):
        yield {"5": fitting(schema["additionalProperties"])[0]}
    for name, inner in properties.items():
        yield from (least | {name: value} for value in fitting(inner))


def bent(value: Any) -> Iterator[Any]:
    """It with one thing in it put otherwise."""
    yield from WRONG
    if isinstance(value, dict):
        yield from (value | {key: other} for key, inner in value.items() for other in bent(inner))
    if isinstance(value, list):
        yield from ([*value[:at], other, *value[at + 1 :]] for at, inner in enumerate(value) for other in bent(inner))


def refusal(name: str, body: dict[str, Any]) -> str | None:
    try:
        READERS[name](json.dumps(body).encode(), LIMITS)
    except RequestError as error:
        return error.message
    return None


@pytest.mark.parametrize("name", READERS)
def test_what_is_forbidden_is_refused(name: str) -> None:
    described = COMPONENTS["schemas"][name]
    least = {field: fitting(described["properties"][field])[0] for field in described.get("required", ())}
    least |= {"prompt": "x"} if name == "WarmRequest" else {}
    for field, inner in described["properties"].items():
        check = jsonschema.Draft202012Validator(inner | {"components": COMPONENTS})
        values = fitting(inner)
        for value in values:
            why = refusal(name, least | {field: value})
            assert why is None or any(need in why for need in NEEDS), (field, value, why)
            assert check.is_valid(value), (field, value)
        for text in {json.dumps(wrong) for value in values for wrong in bent(value)}:
            wrong = json.loads(text)
            assert refusal(name, least | {field: wrong}) or check.is_valid(wrong), (field, wrong)
