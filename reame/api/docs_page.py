"""`/docs`: the OpenAPI document as a page for people. No script, nothing from other servers: it works offline."""

from __future__ import annotations

import json
from html import escape
from typing import Any

CONTENT_SECURITY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  background: #fff }
summary { cursor: pointer; padding: .4rem 0 } summary code { font-weight: 600 }
table { border-collapse: collapse; width: 100%; font-size: .9rem } th { text-align: left }
td, th { border-bottom: 1px solid #ddd; padding: .3rem .6rem .3rem 0; vertical-align: top }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; font-size: .85rem } .method { color: #06c }
details { border-bottom: 1px solid #eee } details > div { padding: 0 0 1rem 1rem } .required { color: #a00 }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } pre { background: #252525 }
  td, th, details { border-color: #333 } .method { color: #6af } .required { color: #f88 } }
"""
_DEPTH = 3
"""Levels of nesting that a value's description goes into."""


def page(document: dict[str, Any], *, model: str) -> str:
    """The page; `model` is named in the examples."""
    operations = [
        _operation(method, path, operation, document, model)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = f"{document['info']['title']} {document['info']['version']}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><h1>{escape(title)}'
        f"</h1><p>{escape(document['info']['description'])} It serves <code>{escape(model)}</code>. For programs: "
        f'<a href="openapi.json">openapi.json</a>.</p>{"".join(operations)}</body></html>'
    )


def _operation(method: str, path: str, operation: dict[str, Any], document: dict[str, Any], model: str) -> str:
    schema = _body_schema(operation, document)
    errors = ", ".join(status for status in operation["responses"] if status != "200")
    parts = [f"<pre>{escape(_example(method, path, schema, model))}</pre>"]
    if schema:
        parts.append(_fields(schema, document))
    parts.append(f"<p>Errors: {errors or 'none'}.</p>")
    head = f'<code><span class="method">{method.upper()}</span> {escape(path)}</code> {escape(operation["summary"])}'
    return f"<details><summary>{head}</summary><div>{''.join(parts)}</div></details>"


def _body_schema(operation: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    (content,) = operation.get("requestBody", {"content": {"": {"schema": {}}}})["content"].values()
    return _resolved(content["schema"], document)


def _fields(schema: dict[str, Any], document: dict[str, Any]) -> str:
    required = schema.get("required", ())
    rows = []
    for name, each in schema.get("properties", {}).items():
        mark = ' <span class="required">required</span>' if name in required else ""
        kind = escape(_kind(each, document, _DEPTH))
        rows.append(f"<tr><td><code>{escape(name)}</code>{mark}<td>{kind}<td>{escape(each.get('description', ''))}")
    return f"<table><tr><th>field<th>values<th>note{''.join(rows)}</table>"


def _kind(schema: dict[str, Any], document: dict[str, Any], depth: int) -> str:
    """What a value may be, in words."""
    schema = _resolved(schema, document)
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if "anyOf" in schema:
        kinds = [_kind(each, document, depth) for each in schema["anyOf"] if each != {"type": "null"}]
        return " | ".join(kinds)
    if schema.get("type") == "array":
        return f"list of {_kind(schema['items'], document, depth)}" if "items" in schema else "list"
    if schema.get("type") == "object" and schema.get("properties") and depth:
        inner = (f"{name}: {_kind(each, document, depth - 1)}" for name, each in schema["properties"].items())
        return "{" + ", ".join(inner) + "}"
    return f"{schema.get('type', 'anything')}{_range(schema)}"


def _range(schema: dict[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    if low is None:
        return ""
    above = "above " if "exclusiveMinimum" in schema else ""
    return f", {above}{low} to {schema['maximum']}" if "maximum" in schema else f", {low} and more"


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: dict[str, Any] = document["components"]["schemas"][name] if name else schema
    return found


_VALUES: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "prompt": "Once upon a time",
    "input": "Hello",
    "max_tokens": 20,
    "input_prefix": "def add(a, b):\n",
    "input_suffix": "\n",
    "content": "Hello",
    "tokens": [1, 2, 3],
    "input_file_id": "file-...",
    "endpoint": "/v1/chat/completions",
    "completion_window": "24h",
}


def _example(method: str, path: str, schema: dict[str, Any], model: str) -> str:
    words = ["curl", "$URL" + path.replace("{id}", model if "models" in path else "ID")]
    if method == "delete":
        words.append("-X DELETE")
    if "file" in schema.get("properties", {}):
        words.append("-F purpose=batch -F file=@requests.jsonl")
    elif schema:
        body = {name: _VALUES[name] for name in schema.get("required", ["prompt"])}
        words.append(f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'")
    elif method == "post":
        words.append("-X POST")
    return " ".join(words)
