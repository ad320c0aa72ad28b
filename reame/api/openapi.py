"""`/openapi.json`: which endpoints there are, what they take and what they answer. Pure; made once.

The tables are written by hand. Tests hold them against the routes and the fields that are read, and drive the server
with requests made of them.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from reame import __version__
from reame.api import openapi_native, openapi_requests
from reame.api.openapi_answers import ANSWERS
from reame.api.openapi_requests import ANY_CHOICES, MOST_TOKENS
from reame.api.openapi_words import Schema, answer, ref, text, whole


@frozen
class Operation:
    """One endpoint. `takes` and `gives` name schemas; without `gives` the answer is `media`. `statuses`: errors."""

    method: str
    path: str
    does: str
    takes: str = ""
    gives: str = ""
    media: str = "application/json"
    streams: bool = False
    is_open: bool = False
    statuses: tuple[int, ...] = ()
    query: tuple[tuple[str, Schema], ...] = ()

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


_BODY = (400, 404, 408, 413, 415, 429, 500, 503)
_PAGE = (("limit", whole(1, 10_000)), ("after", text()), ("order", {"enum": ["asc", "desc"]}))
OPERATIONS = (
    Operation("post", "/v1/chat/completions", "An answer to a conversation.", "ChatRequest", "Chat", streams=True),
    Operation("post", "/v1/completions", "A text is continued.", "CompletionRequest", "Completion", streams=True),
    Operation(
        "post", "/v1/responses", "OpenAI's newer form of a chat.", "ResponsesRequest", "Response", streams=True
    ),
    Operation("get", "/v1/responses/{id}", "A response that was kept.", gives="Response", statuses=(404,)),
    Operation("delete", "/v1/responses/{id}", "It is deleted.", gives="Deleted", statuses=(404,)),
    Operation(
        "get", "/v1/responses/{id}/input_items", "What it is an answer to.", gives="Items", statuses=(400, 404),
        query=_PAGE,
    ),
    Operation(
        "post", "/v1/messages", "Anthropic's form of a chat.", "MessagesRequest", "AnthropicMessage", streams=True
    ),
    Operation(
        "post", "/v1/messages/count_tokens", "How many tokens it has.", "MessagesRequest", "TokenCount"
    ),
    Operation("post", "/v1/embeddings", "Texts become vectors.", "EmbeddingsRequest", "Embeddings"),
    Operation("post", "/v1/warm", "Prompts are computed ahead of time.", "WarmRequest", "Warmed", streams=True),
    Operation("get", "/v1/models", "The models that are served.", gives="Models", statuses=(503,)),
    Operation("get", "/v1/models/{id}", "One of them.", gives="Model", statuses=(404, 503)),
    Operation("post", "/completion", "llama-server's completion.", "NativeRequest", "Native", streams=True),
    Operation("post", "/infill", "A gap in a file is filled in.", "InfillRequest", "Native", streams=True),
    Operation("post", "/tokenize", "A text's tokens.", "TokenizeRequest", "Tokens"),
    Operation("post", "/detokenize", "The tokens' text.", "DetokenizeRequest", "Text"),
    Operation("post", "/v1/files", "A file of requests is kept.", "form", "File", statuses=(403, 409)),
    Operation("get", "/v1/files", "The files of this key.", gives="Files", statuses=(400,), query=_PAGE),
    Operation("get", "/v1/files/{id}", "One of them.", gives="File", statuses=(404,)),
    Operation("delete", "/v1/files/{id}", "It is deleted.", gives="Deleted", statuses=(404, 409)),
    Operation(
        "get", "/v1/files/{id}/content", "Its bytes.", media="application/octet-stream", statuses=(404,)
    ),
    Operation("post", "/v1/batches", "A file of requests is carried out.", "BatchRequest", "Batch", statuses=(409,)),
    Operation("get", "/v1/batches", "The batches of this key.", gives="Batches", statuses=(400,), query=_PAGE),
    Operation("get", "/v1/batches/{id}", "One of them.", gives="Batch", statuses=(404,)),
    Operation("post", "/v1/batches/{id}/cancel", "It is stopped.", gives="Batch", statuses=(404, 409, 429)),
    Operation("get", "/metrics", "For Prometheus.", media="text/plain"),
    Operation("get", "/health", "Can requests be answered?", gives="Health", is_open=True, statuses=(503,)),
    Operation("get", "/openapi.json", "This description.", is_open=True),
    Operation("get", "/docs", "The same for people.", media="text/html", is_open=True),
)
_FORM: Schema = {
    "type": "object",
    "properties": {"file": {"type": "string", "format": "binary"}, "purpose": {"enum": ["batch"]}},
    "required": ["file", "purpose"],
}


def document(*, vocab_size: int | None = None, most_choices: int | None = None) -> dict[str, Any]:
    """OpenAPI 3.1. What is given is said as it is on this server, the model's tokens and the answers at once."""
    known = {MOST_TOKENS - 1: vocab_size and vocab_size - 1, ANY_CHOICES: most_choices}
    told: dict[str, Any] = _with_bounds(_document(), known)
    return told


def _with_bounds(value: Any, known: dict[int, int | None]) -> Any:
    """A copy in which those maxima that stand for something have its value."""
    if isinstance(value, list):
        return [_with_bounds(each, known) for each in value]
    if not isinstance(value, dict):
        return value
    copy = {key: _with_bounds(each, known) for key, each in value.items()}
    if copy.get("maximum") in known:
        copy["maximum"] = known[copy["maximum"]] or copy["maximum"]
    return copy


def _document() -> dict[str, Any]:
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Reame", "version": __version__, "description": "OpenAI's HTTP API for one model."},
        "paths": paths,
        "components": {
            "schemas": openapi_requests.BODIES | openapi_native.BODIES | ANSWERS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.does,
        "operationId": operation.name,
        "responses": _responses(operation),
    }
    parameters = [_query(name, schema) for name, schema in operation.query]
    if "{id}" in operation.path:
        parameters.append({"name": "id", "in": "path", "required": True, "schema": text(minLength=1)})
    if parameters:
        described["parameters"] = parameters
    if operation.takes == "form":
        described["requestBody"] = {"required": True, "content": {"multipart/form-data": {"schema": _FORM}}}
    elif operation.takes:
        content = {"application/json": {"schema": ref(operation.takes)}}
        described["requestBody"] = {"required": True, "content": content}
    if operation.is_open:
        described["security"] = []
    return described


def _query(name: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "schema": schema}


def _responses(operation: Operation) -> dict[str, Any]:
    schema = ref(operation.gives) if operation.gives else {}
    content = {operation.media: {"schema": schema}}
    if operation.streams:
        content["text/event-stream"] = {"schema": answer({"data": text()})}
    error = "AnthropicError" if operation.path.startswith("/v1/messages") else "Error"
    errors = {*operation.statuses, *(_BODY if operation.takes else ()), *(() if operation.is_open else (401,))}
    told = {str(status): _told("It was refused.", {"application/json": {"schema": ref(error)}}) for status in errors}
    if operation.path == "/health":
        told["503"] = _told("Not now.", content)
    return {"200": _told("Done.", content), **dict(sorted(told.items()))}


def _told(what: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"description": what, "content": content}
