"""JSON Schema in few words, for the tables of the OpenAPI document. Pure.

An explicit null is an absent field, so whatever a request does not require may be null too, at every depth: `part`
says so.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def text(note: str = "", **more: Any) -> Schema:
    return _noted({"type": "string"} | more, note)


def whole(low: int, high: int | None = None, note: str = "") -> Schema:
    return _noted({"type": "integer", "minimum": low} | ({} if high is None else {"maximum": high}), note)


def number(low: float, high: float, note: str = "", *, above: bool = False) -> Schema:
    return _noted({"type": "number", "exclusiveMinimum" if above else "minimum": low, "maximum": high}, note)


def flag(note: str = "") -> Schema:
    return _noted({"type": "boolean"}, note)


def one_of(*values: Any, note: str = "") -> Schema:
    return _noted({"enum": list(values)}, note)


def many(items: Schema, note: str = "", **more: Any) -> Schema:
    return _noted({"type": "array", "items": items} | more, note)


def record(properties: dict[str, Schema] | None = None, note: str = "", **more: Any) -> Schema:
    """An object; what it has besides these properties is ignored."""
    return _noted({"type": "object", "properties": properties or {}} | more, note)


def part(properties: dict[str, Schema], *required: str, note: str = "", **more: Any) -> Schema:
    """An object in a request: what is not required may be null."""
    known = {name: each if name in required else nullable(each) for name, each in properties.items()}
    return record(known, note, **more) | ({"required": list(required)} if required else {})


def either(*schemas: Schema, note: str = "") -> Schema:
    return _noted({"anyOf": list(schemas)}, note)


def ref(name: str, note: str = "") -> Schema:
    return _noted({"$ref": f"#/components/schemas/{name}"}, note)


def nullable(schema: Schema) -> Schema:
    note = schema.get("description", "")
    bare = {key: value for key, value in schema.items() if key != "description"}
    return _noted({"anyOf": [bare, {"type": "null"}]}, note)


def answer(properties: dict[str, Schema], *optional: str) -> Schema:
    """An answer's object: all of it is there, but for what is optional."""
    return record(properties) | {"required": [name for name in properties if name not in optional]}


def _noted(schema: Schema, note: str) -> Schema:
    return schema | ({"description": note} if note else {})
