"""A schema with its patterns as llguidance reads them. Faults are found and told in the schema as it came, so this is
the last that is done to it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from reame.constraint.pattern import rust_pattern
from reame.constraint.schema_tree import mapped, step_name

_PATTERNS = "patternProperties"


def in_rust(schema: Any) -> Any:
    """Of a schema that was checked."""
    if not isinstance(schema, dict):
        return schema
    own = {keyword: mapped(keyword, value, in_rust) for keyword, value in schema.items()}
    if isinstance(pattern := own.get("pattern"), str):
        own["pattern"] = rust_pattern(pattern)
    if isinstance(patterns := own.get(_PATTERNS), dict):
        own[_PATTERNS] = {rust_pattern(pattern): inner for pattern, inner in patterns.items()}
    if isinstance(reference := own.get("$ref"), str) and f"/{_PATTERNS}/" in reference:
        own["$ref"] = _renamed(reference)
    return own


def _renamed(reference: str) -> str:
    """A pointer that leads through patterns."""
    steps = reference.split("/")
    for number, step in enumerate(steps[1:], 1):
        if steps[number - 1] == _PATTERNS:
            pattern = rust_pattern(step_name(step))
            steps[number] = quote(pattern.replace("~", "~0").replace("/", "~1"), safe="~")
    return "/".join(steps)
