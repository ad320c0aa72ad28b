"""Where in a JSON Schema other schemas are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reame.constraint.fault import Path

_IN_AN_OBJECT = ("properties", "patternProperties", "$defs", "definitions")
_IN_A_LIST = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
_ITSELF = ("items", "additionalProperties", "additionalItems")
COMBINING = ("allOf", "anyOf", "oneOf", "$ref")
"""Keywords that apply other schemas to the same value."""


def inner(keyword: str, value: Any) -> Iterator[tuple[Path, Any]]:
    """The schemas in the value of a keyword, each with its way from there."""
    if keyword in _IN_AN_OBJECT and isinstance(value, dict):
        yield from (((name,), schema) for name, schema in value.items())
    elif keyword in _IN_A_LIST and isinstance(value, list):
        yield from (((index,), schema) for index, schema in enumerate(value))
    elif keyword in _ITSELF:
        yield (), value


def mapped(keyword: str, value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with each schema in it (those that `inner` gives) changed."""
    if keyword in _IN_AN_OBJECT and isinstance(value, dict):
        return {name: change(schema) for name, schema in value.items()}
    if keyword in _IN_A_LIST and isinstance(value, list):
        return [change(schema) for schema in value]
    return change(value) if keyword in _ITSELF else value


def is_schema(root: Any, path: Path) -> bool:
    """Whether there is a schema at the path, which leads to something, and not a value such as that of `default`."""
    while path:
        keyword, value = path[0], root[path[0]]
        is_many = (keyword in _IN_AN_OBJECT and isinstance(value, dict)) or (
            keyword in _IN_A_LIST and isinstance(value, list)
        )
        if not isinstance(root, dict) or not (is_many or keyword in _ITSELF) or len(path) < 1 + is_many:
            return False
        root, path = at(value, path[1 : 1 + is_many]), path[1 + is_many :]
    return isinstance(root, dict | bool)


def walk(root: Any) -> Iterator[tuple[Path, Any]]:
    """Every schema in `root`, itself first, with its path."""
    stack: list[tuple[Path, Any]] = [((), root)]
    while stack:
        path, schema = stack.pop()
        yield path, schema
        if isinstance(schema, dict):
            found = [((*path, key, *way), sub) for key, value in schema.items() for way, sub in inner(key, value)]
            stack.extend(reversed(found))


def at(root: Any, path: Path) -> Any:
    """Raises LookupError or TypeError when there is nothing."""
    for step in path:
        root = root[step]
    return root


def with_at(root: Any, path: Path, value: Any) -> Any:
    """A copy of `root` with `value` at `path`; what lies beside the path is shared."""
    if not path:
        return value
    copy = root.copy()
    copy[path[0]] = with_at(root[path[0]], path[1:], value)
    return copy


def step_name(step: str) -> str:
    """What a step of a reference means."""
    return unquote(step).replace("~1", "/").replace("~0", "~")


def pointed(root: Any, reference: str) -> Path:
    """The path of a reference such as #/$defs/name. Raises LookupError when it leads nowhere."""
    path: list[str | int] = []
    for step in reference[1:].split("/")[1:]:
        name = step_name(step)
        key: str | int = int(name) if isinstance(root, list) and name.isdecimal() else name
        if not isinstance(root, dict | list) or (isinstance(root, list) and isinstance(key, str)):
            raise LookupError(reference)
        root = root[key]  # type: ignore[index]
        path.append(key)
    return tuple(path)
