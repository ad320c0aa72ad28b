"""A schema brought to the form in which it is compiled: objects have no properties but those that it names.

JSON Schema lets any others in unless told not to, and a model that may add some rambles. Leaving them out is always
valid; it is done wherever it is sure that no other schema in the same place asks for what this one does not name.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from reame.constraint.schema_tree import COMBINING, mapped, walk

_OF_OBJECTS = ("properties", "required", "additionalProperties", "patternProperties", "minProperties")
_OPEN = ("additionalProperties", "patternProperties", "minProperties")
_SAYS_NOTHING = ("uniqueItems", "nullable")
"""When they are false."""


def closed(root: Any) -> Any:
    """The schema with `additionalProperties: false` where that is safe, and without what says nothing."""
    return _closed(root, safe=not any(_combines(schema) for _, schema in walk(root)))


def _closed(schema: Any, *, safe: bool) -> Any:
    if not isinstance(schema, dict):
        return schema
    change = partial(_closed, safe=safe)
    own = {
        keyword: mapped(keyword, value, change)
        for keyword, value in schema.items()
        if value is not False or keyword not in _SAYS_NOTHING
    }
    return own | ({"additionalProperties": False} if safe and _is_open(schema) else {})


def _combines(schema: Any) -> bool:
    """Other schemas apply to the same object, so that closing one of them may make it impossible."""
    if not isinstance(schema, dict):
        return False
    others = any(keyword in schema for keyword in (*COMBINING, "const", "enum"))
    return "allOf" in schema or (others and any(keyword in schema for keyword in _OF_OBJECTS))


def _is_open(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties")
    return (
        bool(properties)
        and not any(keyword in schema for keyword in _OPEN)
        and set(schema.get("required", ())) <= set(properties or ())
    )
