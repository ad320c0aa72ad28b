"""`/openapi.json` is true: every route and every field that is read is in it, and answers are as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from scripted import NoMetrics, ScriptedIntake, chat_body

import reame
from reame.api.app import OPEN, create_app
from reame.api.docs_page import page
from reame.api.openapi import OPERATIONS, document
from reame.config import Config
from reame.config_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

    from quart.typing import TestClientProtocol

API = Path(reame.__file__).parent / "api"
DOCUMENT = document()
READ = re.compile(r'fields\.(?:whole|number|text|flag|array|record|get)\("(\w+)"')
"""Of a body's own fields; what is inside of others, and by which other names they come, is told more loosely."""
REFUSED = {"background", "conversation", "prompt"}
"""Read in order to be refused."""


def schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}", "components": DOCUMENT["components"]}


def check(name: str, value: Any) -> None:
    jsonschema.Draft202012Validator(schema(name)).validate(value)


def routed() -> Iterator[str]:
    app = create_app(Config(), ScriptedIntake(), NoMetrics(), ())  # type: ignore[arg-type]
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<[^>]*>", "{id}", rule.rule)
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}:
            yield f"{method.lower()} {path}"


def test_every_route_is_described_and_nothing_else() -> None:
    assert sorted(routed()) == sorted(operation.name.replace(" /v1/", " /") for operation in OPERATIONS)


def test_the_schemas_are_sound_and_all_of_them_are_used() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for each in schemas.values():
        jsonschema.Draft202012Validator.check_schema(each)
    named = set(re.findall(r"#/components/schemas/(\w+)", str(DOCUMENT)))
    assert named == set(schemas)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("schema_chat", ["ChatRequest"]),
        ("schema_completion", ["CompletionRequest"]),
        ("schema", ["ChatRequest", "CompletionRequest"]),
        ("schema_conclave", ["ChatRequest", "CompletionRequest"]),
        ("schema_anthropic", ["MessagesRequest"]),
        ("schema_responses", ["ResponsesRequest"]),
        ("schema_embeddings", ["EmbeddingsRequest"]),
        ("schema_warm", ["WarmRequest"]),
        ("schema_native", ["NativeRequest", "InfillRequest", "TokenizeRequest", "DetokenizeRequest"]),
        ("schema_batches", ["BatchRequest"]),
    ],
)
def test_every_field_that_is_read_is_described(file: str, names: list[str]) -> None:
    read = set(READ.findall((API / f"{file}.py").read_text("utf-8"))) - REFUSED
    described = {field for name in names for field in DOCUMENT["components"]["schemas"][name]["properties"]}
    assert read
    assert read - {"json_schema", "functions", "function_call"} <= described


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/v1/chat/completions", chat_body(), "Chat"),
        ("/v1/completions", {"prompt": "x"}, "Completion"),
        ("/v1/responses", {"input": "x"}, "Response"),
        ("/v1/messages", chat_body(max_tokens=3), "AnthropicMessage"),
        ("/v1/chat/completions", {}, "Error"),
        ("/v1/messages", {}, "AnthropicError"),
        ("/v1/embeddings", {"input": "x"}, "Error"),
    ],
)
async def test_answers_are_as_described(client: TestClientProtocol, path: str, body: Any, name: str) -> None:
    check(name, await (await client.post(path, json=body)).get_json())


@pytest.mark.parametrize(
    ("path", "name"), [("/v1/models", "Models"), ("/v1/models/tiny", "Model"), ("/health", "Health")]
)
async def test_looks_are_as_described(client: TestClientProtocol, path: str, name: str) -> None:
    check(name, await (await client.get(path)).get_json())


def test_a_bent_body_does_not_fit() -> None:
    check("ChatRequest", chat_body(temperature=None, stop=["a"], unknown=3))
    for bent in ({"messages": []}, chat_body(temperature=3), chat_body(stop=3), chat_body(n=0)):
        with pytest.raises(jsonschema.ValidationError):
            check("ChatRequest", bent)


@pytest.mark.parametrize("path", OPEN)
async def test_what_is_open_asks_for_no_key(path: str) -> None:
    app = create_app(Config(), ScriptedIntake(), NoMetrics(), (ApiKey("anna", "a" * 32),))  # type: ignore[arg-type]
    assert (await app.test_client().get(path)).status_code == 200
    assert (await app.test_client().get("/v1/models")).status_code == 401


async def test_the_document_is_served(client: TestClientProtocol) -> None:
    for path in ("/openapi.json", "/v1/openapi.json"):
        assert await (await client.get(path)).get_json() == document(vocab_size=100, most_choices=16 + 64)


def test_what_only_the_server_knows() -> None:
    known = document(vocab_size=100, most_choices=4)["components"]["schemas"]
    assert known["DetokenizeRequest"]["properties"]["tokens"]["items"]["maximum"] == 99
    (number, _) = known["ChatRequest"]["properties"]["n"]["anyOf"]
    assert number["maximum"] == 4


async def test_the_page_is_whole_and_asks_no_other_server(client: TestClientProtocol) -> None:
    answer = await client.get("/docs")
    html = await answer.get_data(as_text=True)
    assert answer.content_type == "text/html; charset=utf-8"
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert not re.search(r"(?:https?:)?//[a-z]|<script", html)
    for operation in OPERATIONS:
        assert operation.path in html
    for field in DOCUMENT["components"]["schemas"]["ChatRequest"]["properties"]:
        assert f"<code>{field}</code>" in html


def test_names_are_escaped() -> None:
    assert "<b>" not in page(DOCUMENT, model="<b>")
