"""What is not done of JSON Schema, found before anything is compiled: each fault with its keyword and its place.

What remains (alternatives that overlap, patterns that need look-ahead, ...) llguidance finds; see `locate`.
"""

from __future__ import annotations

from decimal import Decimal
from difflib import get_close_matches
from typing import Any

from reame.constraint.fault import ConstraintFault
from reame.constraint.pattern import PatternFault, rust_pattern
from reame.constraint.schema_tree import is_schema, mapped, pointed, walk

MAX_SCHEMAS = 20_000
"""Schemas in a schema."""
MAX_PROPERTIES = 1_000
"""Of one object: the time to compile them grows with the square."""
MAX_MULTIPLE = 20_000
"""Of the digits of a multipleOf: each remainder is a state."""
EXACT = 2**53
"""Up to here every integer is a float."""

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
FORMATS = ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
SUPPORTED = (
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"),
    *("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"),
    *("items", "prefixItems", "additionalItems", "minItems", "maxItems"),
    *("minLength", "maxLength", "pattern", "format"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
)
ANNOTATIONS = (
    *("title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"),
    *("$schema", "$id", "id", "$anchor", "$defs", "definitions"),
    *("contentMediaType", "contentEncoding", "contentSchema", "discriminator"),
)
"""They say nothing about which values are valid."""
UNSUPPORTED = (
    *("not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies"),
    *("uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems"),
    *("propertyNames", "unevaluatedProperties"),
    *("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$vocabulary", "nullable"),
)
_LISTS = ("enum", "required", "anyOf", "oneOf", "allOf", "prefixItems")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "const", "enum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def check_schema(root: Any) -> None:
    """Raises ConstraintFault with the path of the keyword at fault."""
    for number, (path, schema) in enumerate(walk(root)):
        if number >= MAX_SCHEMAS:
            raise ConstraintFault(f"holds more than {MAX_SCHEMAS} schemas")
        if isinstance(schema, bool):
            continue
        if not isinstance(schema, dict):
            raise ConstraintFault("must be an object, true or false", path)
        for keyword, value in schema.items():
            if fault := _fault(root, schema, keyword, value):
                raise ConstraintFault(fault, path, keyword)


def without_unsupported(root: Any) -> Any:
    """A schema without keywords that are not known or not supported. It lets through all that this one does, but for
    the nulls of OpenAPI's `nullable`."""

    def change(schema: Any) -> Any:
        if not isinstance(schema, dict):
            return schema
        kept = {keyword: value for keyword, value in schema.items() if _is_supported(keyword, value)}
        return {keyword: mapped(keyword, value, change) for keyword, value in kept.items()}

    return change(root)


def _is_supported(keyword: str, value: Any) -> bool:
    if keyword == "format":
        return not isinstance(value, str) or value in FORMATS
    return keyword in SUPPORTED or keyword in ANNOTATIONS


def _fault(root: Any, schema: dict[str, Any], keyword: str, value: Any) -> str | None:
    """What is wrong with this keyword; the message goes on after its name."""
    if keyword in ANNOTATIONS or (keyword.startswith("x-") and keyword != "x-guidance"):
        return _shape(keyword, value)
    if keyword in UNSUPPORTED:
        return None if value is False and keyword in ("uniqueItems", "nullable") else "is not supported"
    if keyword not in SUPPORTED:
        near = get_close_matches(keyword, SUPPORTED, 1)
        return f"is not a keyword of JSON Schema; did you mean {near[0]}?" if near else "is not a known keyword"
    return _shape(keyword, value) or _value_fault(root, schema, keyword, value)


def _shape(keyword: str, value: Any) -> str | None:
    if keyword in _LISTS and not isinstance(value, list):
        return "must be a list"
    if keyword in ("properties", "patternProperties", "$defs", "definitions") and not isinstance(value, dict):
        return "must be an object"
    if keyword in _COUNTS and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
        return "must be an integer of at least 0"
    if keyword in ("pattern", "format", "$ref", "$id", "$anchor", "$schema") and not isinstance(value, str):
        return "must be a string"
    return None


def _value_fault(root: Any, schema: dict[str, Any], keyword: str, value: Any) -> str | None:
    match keyword:
        case "type":
            names = value if isinstance(value, list) else [value]
            return None if names and all(n in TYPES for n in names) else f"must be one or more of {', '.join(TYPES)}"
        case "format":
            return None if value in FORMATS else f"is supported only as one of {', '.join(FORMATS)}"
        case "$ref":
            return _reference_fault(root, value)
        case "multipleOf":
            return _multiple_fault(value)
        case "pattern":
            return _pattern_fault(value)
        case "patternProperties":
            return _patterns_fault(value)
        case "properties" if len(value) > MAX_PROPERTIES:
            return f"has {len(value)} entries; at most {MAX_PROPERTIES} are supported"
        case "required" if not all(isinstance(name, str) for name in value):
            return "must be a list of strings"
        case "minProperties" if value > max(1, _num_required(schema)):
            return "above 1 and the number of required properties is not supported"
    inexact = keyword in _NUMBERS and not all(_is_exact(each) for each in _scalars(value))
    return "has an integer of more than 53 bits, which is not supported" if inexact else None


def _num_required(schema: dict[str, Any]) -> int:
    required = schema.get("required")
    return len(required) if isinstance(required, list) else 0


def _reference_fault(root: Any, reference: str) -> str | None:
    if not reference.startswith("#"):
        return "must lead to a place in the same schema, such as #/$defs/name"
    if reference.startswith("#/"):
        try:
            path = pointed(root, reference)
        except LookupError:
            return "leads nowhere"
        if not is_schema(root, path):
            return "leads to what is no schema; put what is referred to into $defs"
    return None


def _pattern_fault(pattern: str) -> str | None:
    try:
        rust_pattern(pattern)
    except PatternFault as fault:
        return str(fault)
    return None


def _patterns_fault(patterns: dict[str, Any]) -> str | None:
    if fault := next(filter(None, map(_pattern_fault, patterns)), None):
        return fault
    return None if len(set(map(rust_pattern, patterns))) == len(patterns) else "has the same pattern twice"


def _multiple_fault(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return "must be a number above 0"
    exact = Decimal(repr(value))
    while exact <= MAX_MULTIPLE and exact % 1:  # of larger ones there may be no remainder to be had
        exact *= 10
    return None if exact <= MAX_MULTIPLE else f"is supported up to {MAX_MULTIPLE}, whatever its decimal point"


def _scalars(value: Any) -> list[Any]:
    """All values in a constant that hold no others."""
    if isinstance(value, dict):
        return [each for item in value.values() for each in _scalars(item)]
    return [each for item in value for each in _scalars(item)] if isinstance(value, list) else [value]


def _is_exact(value: Any) -> bool:
    return not isinstance(value, int) or abs(value) <= EXACT
