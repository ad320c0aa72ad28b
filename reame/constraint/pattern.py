"""JSON Schema's patterns (ECMA-262, with code points for characters as in its `u` mode) in the syntax of Rust's regex
crate, which llguidance reads. The two differ silently in what classes, dots and escapes mean.

U+0000 is never let through: llguidance writes a class that holds all control characters, but not the quote or the
backslash, as if it held these too (seen in 1.9.1). Without U+0000 no class holds them all.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
"""Code points, first and last of each range."""

_LAST = 0x10FFFF
_NUL = 0
_BOTH = (ord('"'), ord("\\"))
_DIGIT: Ranges = ((0x30, 0x39),)
_WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_SPACE: Ranges = (
    *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_CLASSES = {"d": _DIGIT, "w": _WORD, "s": _SPACE}
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_CODE = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|c([A-Za-z])|(0)(?![0-9])")
_PAIR = re.compile(r"u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_PROPERTY = re.compile(r"[pP]\{[A-Za-z0-9_=]+\}")
_NAMED = re.compile(r"\(\?P?<[A-Za-z_$][A-Za-z0-9_$]*>")
_FLAGS = re.compile(r"\(\?i?[:)]")
_LOOK = ("(?=", "(?!", "(?<=", "(?<!")


class PatternFault(Exception):
    """What is wrong; it goes on after "the pattern "."""


class _Atom(NamedTuple):
    """A part of a class: code points, or a property in Rust's words. `is_one`: a single character, as ranges have
    on either side."""

    ranges: Ranges
    property: str = ""
    is_one: bool = False


def rust_pattern(pattern: str) -> str:
    """The same language without texts that hold U+0000. Look-around, references and word boundaries are left as they
    are, for llguidance to refuse. Raises PatternFault."""
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "[":
            part, place = _class(pattern, place)
        elif char == "\\":
            part, place = _escape(pattern, place)
        elif char == "(":
            part, place = _group(pattern, place)
        else:
            part, place = _outside(char), place + 1
        parts.append(part)
    return "".join(parts)


def _outside(char: str) -> str:
    if char == ".":
        return _written(_complement(_LINE_ENDS))
    return char if char in "^$)|*+?{}," else _literal(ord(char))


def _group(pattern: str, start: int) -> tuple[str, int]:
    if not pattern.startswith("(?", start):
        return "(", start + 1
    if found := _NAMED.match(pattern, start):
        return "(?:", found.end()
    if found := _FLAGS.match(pattern, start):
        return found[0], found.end()
    if look := next((look for look in _LOOK if pattern.startswith(look, start)), ""):
        return look, start + len(look)
    raise PatternFault(f"has a group that is not supported: {pattern[start : start + 6]}")


def _escape(pattern: str, start: int) -> tuple[str, int]:
    """Outside of classes."""
    if pattern[start + 1 : start + 2] in tuple("bBk123456789"):
        return pattern[start : start + 2], start + 2
    atom, end = _escaped(pattern, start)
    if atom.is_one:
        return _literal(atom.ranges[0][0]), end
    return _written(atom.ranges, [atom.property] if atom.property else []), end


def _class(pattern: str, start: int) -> tuple[str, int]:
    place = start + 1
    is_negated = pattern.startswith("^", place)
    place += is_negated
    if pattern.startswith("]", place):
        raise PatternFault("begins a class with ]: in ECMA-262 the class is empty; write \\] for the bracket")
    ranges: list[tuple[int, int]] = []
    properties: list[str] = []
    while not pattern.startswith("]", place):
        first, place = _member(pattern, place)
        after = pattern[place + 1 : place + 2]
        if first.is_one and pattern.startswith("-", place) and after not in ("]", ""):
            last, end = _member(pattern, place + 1)
            if last.is_one:
                if first.ranges > last.ranges:
                    raise PatternFault(f"has a range out of order: {pattern[place - 1 : end]}")
                ranges.append((first.ranges[0][0], last.ranges[0][0]))
                place = end
                continue
        ranges.extend(first.ranges)
        properties.extend([first.property] if first.property else [])
    return _written(ranges, properties, is_negated=is_negated), place + 1


def _member(pattern: str, place: int) -> tuple[_Atom, int]:
    if place >= len(pattern):
        raise PatternFault("has a class without its ]")
    if pattern.startswith("[:", place):
        raise PatternFault("has a class of POSIX, such as [:alpha:], which ECMA-262 does not know; write a-zA-Z")
    if pattern[place] == "\\":
        if pattern.startswith("\\b", place):
            return _one(0x08), place + 2
        return _escaped(pattern, place)
    return _one(ord(pattern[place])), place + 1


def _escaped(pattern: str, start: int) -> tuple[_Atom, int]:
    """What a backslash and what follows stand for."""
    char = pattern[start + 1 : start + 2]
    if (ranges := _CLASSES.get(char.lower())) is not None:
        return _Atom(ranges if char.islower() else _complement(ranges)), start + 2
    if char in _CONTROLS:
        return _one(_CONTROLS[char]), start + 2
    if found := _PROPERTY.match(pattern, start + 1):
        return _Atom((), f"\\{found[0]}"), found.end()
    if found := _PAIR.match(pattern, start + 1):
        high, low = (int(half, 16) for half in found.groups())
        return _one(0x10000 + ((high - 0xD800) << 10) + low - 0xDC00), found.end()
    if found := _CODE.match(pattern, start + 1):
        two, four, braced, control, nul = found.groups()
        code = ord(control) % 32 if control else int(two or four or braced or nul, 16)
        if code > _LAST or 0xD800 <= code <= 0xDFFF:
            raise PatternFault(f"has \\{found[0]}, which is no character; write \\u{{...}} for those beyond U+FFFF")
        return _one(code), found.end()
    if not char or (char.isascii() and char.isalnum()):
        raise PatternFault(f"has \\{char}, which is no escape of ECMA-262" if char else "ends with a backslash")
    return _one(ord(char)), start + 2


def _one(code: int) -> _Atom:
    return _Atom(((code, code),), is_one=True)


def _literal(code: int) -> str:
    if code == _NUL:
        raise PatternFault("asks for U+0000, which is not supported")
    return chr(code) if chr(code).isalnum() else f"\\x{{{code:X}}}"


def _written(ranges: Iterable[tuple[int, int]], properties: Iterable[str] = (), *, is_negated: bool = False) -> str:
    """A class in Rust's syntax, without U+0000 unless it holds both the quote and the backslash."""
    named = "".join(properties)
    if not named:
        ranges = _complement(ranges) if is_negated else _merged(ranges)
        if not all(any(low <= code <= high for low, high in ranges) for code in _BOTH):
            ranges = [(max(low, 1), high) for low, high in ranges if high]
        if not ranges:
            raise PatternFault("has a class that lets no character through, or U+0000 only")
        return f"[{_listed(ranges)}]"
    if is_negated:
        return rf"[^{_listed(ranges)}{named}\x00]"
    return rf"[{_listed(ranges)}{named}&&[^\x00]]"


def _listed(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in ranges)


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged


def _complement(ranges: Iterable[tuple[int, int]]) -> Ranges:
    gaps, free = [], 0
    for low, high in _merged(ranges):
        gaps.append((free, low - 1))
        free = high + 1
    return tuple((low, high) for low, high in [*gaps, (free, _LAST)] if low <= high)
