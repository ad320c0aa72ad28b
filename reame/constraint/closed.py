"""A schema brought to the form in which it is compiled: objects have no properties but those that it names.

JSON Schema lets any others in unless told not to, and a model that may add some rambles. Leaving them out is always
valid; it is done wherever it is sure that no other schema in the same place asks for what this one does not name.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from reame.constraint.schema_tree import COMBINING, mapped, walk

_OF_OBJECTS = ("properties", "required", "additionalProperties", "patternProperties", "minProperties")
_OPEN = ("additionalProperties", "patternProperties", "minProperties")
_SAYS_NOTHING = ("uniqueItems", "nullable")
"""When they are false."""
_DRAFT = re.compile(r"https?://json-schema\.org/draft(?:-0([467])|/(2019-09|2020-12))/schema#?")
_OF_A_FRAGMENT = "/~!$&'()*+,;=:@"
"""Beside letters and digits: RFC 3986."""


def closed(root: Any) -> Any:
    """A checked schema with `additionalProperties: false` where that is safe, without what says nothing, and with its
    references and its draft as they are to be written."""
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
    if isinstance(reference := own.get("$ref"), str):
        base, mark, fragment = reference.partition("#")
        own["$ref"] = base + mark + quote(unquote(fragment), safe=_OF_A_FRAGMENT)
    if isinstance(name := own.pop("$schema", None), str) and (draft := _draft(name)):
        own["$schema"] = draft
    return own | ({"additionalProperties": False} if safe and _is_open(schema) else {})


def _combines(schema: Any) -> bool:
    """Other schemas apply to the same object, so that closing one of them may make it impossible."""
    if not isinstance(schema, dict):
        return False
    others = sum(keyword in schema for keyword in (*COMBINING, "const", "enum"))
    return "allOf" in schema or others > 1 or (others == 1 and any(keyword in schema for keyword in _OF_OBJECTS))


def _is_open(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties")
    return (
        bool(properties)
        and not any(keyword in schema for keyword in _OPEN)
        and set(schema.get("required", ())) <= set(properties or ())
    )


def _draft(name: str) -> str | None:
    """The draft of JSON Schema that is meant, None for one that is not known: the latest is taken then."""
    found = _DRAFT.fullmatch(name)
    if found is None:
        return None
    old, new = found.groups()
    return f"http://json-schema.org/draft-0{old}/schema#" if old else f"https://json-schema.org/draft/{new}/schema"
