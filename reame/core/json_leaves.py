"""Where the leaves of a JSON text are: its numbers, strings, true, false, null, and empty containers. Pure."""

from __future__ import annotations

import json
import re

from attrs import frozen

_STRING = r'"(?:[^"\\]|\\.)*"'
_KEY = re.compile(rf"({_STRING}):".encode())
_LEAF = re.compile(rf"{_STRING}|(-?[0-9][0-9.eE+-]*)(?=[,\]}}]|$)|true|false|null|\[\]|\{{\}}".encode(), re.DOTALL)

MAX_DEPTH = 100
"""Levels of nesting; what is deeper, and all that follows it, is not told."""


@frozen
class Leaf:
    """`pointer` as RFC 6901 has it ("" for the whole); bytes start..stop-1 of the text decide what it is.

    They go one beyond a number, as what follows could have been another digit.
    """

    pointer: str
    start: int
    stop: int


def leaves(text: bytes) -> list[Leaf]:
    """Those that are complete, in order, of compact JSON, which may be cut anywhere; none below `MAX_DEPTH`."""
    found: list[Leaf] = []
    _read(text, 0, "", found, MAX_DEPTH)
    return found


def _read(text: bytes, place: int, pointer: str, found: list[Leaf], levels: int) -> int:
    """Notes the leaves of the value at `place`; gives the place behind it, or the end of the text when it is cut."""
    if leaf := _LEAF.match(text, place):
        found.append(Leaf(pointer, place, leaf.end() + bool(leaf.group(1))))
        return leaf.end()
    opening = text[place : place + 1]
    if opening not in (b"{", b"[") or not levels:
        return len(text)
    place += 1
    index = 0
    while place < len(text):
        name = str(index)
        if opening == b"{":
            key = _KEY.match(text, place)
            if key is None:
                return len(text)
            name, place = json.loads(key.group(1)).replace("~", "~0").replace("/", "~1"), key.end()
        place = _read(text, place, f"{pointer}/{name}", found, levels - 1)
        index += 1
        place += 1
        if text[place - 1 : place] != b",":
            break
    return place
