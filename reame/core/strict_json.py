"""JSON from strangers: finite numbers, no key twice, whole characters only, and not too many levels. Pure."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, NoReturn

MAX_DEPTH = 64
"""Levels of nesting."""
_SCALARS = frozenset({int, bool, type(None)})


class JsonFault(Exception):
    """The message goes on after the name of what was read, and repeats nothing of it."""


def parse(text: str) -> Any:
    """Raises JsonFault."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise JsonFault(f"is not valid JSON: {error.msg} ({where}).") from None
    except ValueError:
        raise JsonFault("has an integer of thousands of digits.") from None
    except RecursionError:
        raise _too_deep() from None
    _check_tree(value)
    return value


def _refuse_constant(word: str) -> NoReturn:
    raise JsonFault(f"is not valid JSON: {word} is not a number.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonFault("has an object with the same key twice.")
    return value


def _too_deep() -> JsonFault:
    return JsonFault(f"is nested more than {MAX_DEPTH} levels deep.")


def _check_tree(root: Any) -> None:
    level: list[Any] = [root]
    for _ in range(MAX_DEPTH):
        level = [child for value in level for child in _children(value)]
        if not level:
            return
    raise _too_deep()


def _children(value: Any) -> list[Any]:
    """What is inside `value` and may need a look; a list of integers, which may be long, does not."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, list):
        return [] if _SCALARS.issuperset(map(type, value)) else value
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, float) and not isfinite(value):
        raise JsonFault("has a number too large for a float.")
    return []


def _check_text(value: str) -> None:
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError:
        raise JsonFault("has half of a surrogate pair in a string.") from None
