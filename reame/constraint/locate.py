"""Which keyword of a schema is at fault, when the compiler only says that something is."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from reame.constraint.schema_tree import at, inner, pointed, with_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.constraint.fault import Path

_FIRST = ("$defs", "definitions", "$schema", "$id", "id", "$anchor")
"""Keywords that others refer to: they always stay."""


def locate(root: Any, message: str, compiled: Callable[[Any], str], *, until: float) -> tuple[Path, str]:
    """The first schema and keyword without which `compiled`, which says what is wrong with a schema, would not say
    `message`; "" when it is no single keyword. Goes on into what is referred to. Stops at process time `until`
    (seconds) with what it has found by then.
    """

    def fails(schema: Any, place: Path, value: Any) -> bool:
        return compiled(with_at(schema, place, value)) == message

    path: Path = ()
    seen: set[Path] = set()
    while path not in seen and time.process_time() < until:
        seen.add(path)
        node = at(root, path)
        if not isinstance(node, dict):
            break
        keyword = _first_keyword(root, path, node, fails)
        if keyword is None:
            break
        value = node[keyword]
        if keyword == "$ref" and value.startswith("#/"):
            path = pointed(root, value)
            continue
        schemas = list(inner(keyword, value))
        number = _first_schema(root, (*path, keyword), value, schemas, fails)
        if number is None:
            return path, keyword
        for way, _ in schemas[number + 1 :]:
            value = with_at(value, way, True)
        root = with_at(root, (*path, keyword), value)
        path = (*path, keyword, *schemas[number][0])
    return path, ""


def _first_keyword(root: Any, path: Path, node: dict[str, Any], fails: Callable[[Any, Path, Any], bool]) -> str | None:
    """The first that makes it fail, with all before it."""
    taken = {key: node[key] for key in _FIRST if key in node}
    for key, value in node.items():
        if key not in taken:
            taken[key] = value
            if fails(root, path, taken):
                return key
    return None


def _first_schema(
    root: Any, path: Path, value: Any, schemas: list[tuple[Path, Any]], fails: Callable[[Any, Path, Any], bool]
) -> int | None:
    """Index of the first that makes it fail, with all before it; None when it fails without any."""

    def cut(number: int) -> Any:
        kept = value
        for way, _ in schemas[number:]:
            kept = with_at(kept, way, True)
        return kept

    if not schemas or fails(root, path, cut(0)):
        return None
    low, high = 1, len(schemas)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fails(root, path, cut(middle)) else (middle + 1, high)
    return low - 1
