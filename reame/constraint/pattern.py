"""JSON Schema's patterns (ECMA-262, with code points for characters as in its `u` mode) in the syntax of Rust's regex
crate, which llguidance reads. The two differ silently in what classes, dots and escapes mean.

U+0000 is never let through: llguidance writes a class that holds all control characters, but not the quote or the
backslash, as if it held these too (seen in 1.9.1). Without U+0000 no class holds them all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable

Ranges: TypeAlias = "tuple[tuple[int, int], ...]"
"""Code points, first and last of each range."""

_LAST = 0x10FFFF
_BOTH = (ord('"'), ord("\\"))
_ALL: Ranges = ((0, _LAST),)
_LINE_ENDS: Ranges = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CLASSES: dict[str, Ranges] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": (
        *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
        *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
    ),
}
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_CODE = re.compile(
    r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|[ux]\{([0-9A-Fa-f]{1,6})\}|c([A-Za-z])|(0)(?![0-9])", re.ASCII
)
_PAIR = re.compile(r"u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
_PROPERTY = re.compile(r"[pP](?:[A-Z]|\{[A-Za-z0-9_=]+\})")
_REPEATED = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_NAMED = re.compile(r"\(\?P?<(?![=!])[^<>]+>")
_FLAGS = re.compile(r"\(\?([isu]+)\)")
_ELSEWHERE = {"(?=": "look-ahead", "(?!": "look-ahead", "(?<=": "look-behind", "(?<!": "look-behind"}
_REFERENCES = "k123456789"


class PatternFault(Exception):
    """What is wrong; it goes on after "the pattern "."""


class _Member(NamedTuple):
    """A part of a class. `ranges` is None where they are not known here."""

    written: str
    ranges: Ranges | None

    @property
    def code(self) -> int | None:
        """Of a single character, with which a range can begin or end."""
        ((low, high), *others) = self.ranges or _ALL
        return low if low == high and not others else None


@lru_cache(maxsize=1024)
def rust_pattern(pattern: str) -> str:
    """The same language without texts that hold U+0000. Raises PatternFault, also for what llguidance cannot do."""
    flags = _FLAGS.match(pattern)
    parts = ["(?i)" if flags and "i" in flags[1] else ""]
    dot = _written([_listed(_ALL)]) if flags and "s" in flags[1] else _written([_listed(_LINE_ENDS)], is_negated=True)
    place = flags.end() if flags else 0
    while place < len(pattern):
        char = pattern[place]
        if char == "[":
            part, place = _class(pattern, place)
        elif char == "\\":
            part, place = _escape(pattern, place)
        elif char == "(":
            part, place = _group(pattern, place)
        elif char == "{":
            part, place = _repetition(pattern, place)
        else:
            part, place = dot if char == "." else char if char in "^$)|*+?" else _literal(ord(char)), place + 1
        parts.append(part)
    return "".join(parts)


def _group(pattern: str, start: int) -> tuple[str, int]:
    if not pattern.startswith("(?", start):
        return "(", start + 1
    if found := _NAMED.match(pattern, start):
        return "(?:", found.end()
    if plain := next((plain for plain in ("(?:", "(?i:") if pattern.startswith(plain, start)), ""):
        return plain, start + len(plain)
    if what := next((what for look, what in _ELSEWHERE.items() if pattern.startswith(look, start)), ""):
        raise PatternFault(f"has look-around ({what}), which is not supported")
    raise PatternFault(f"has a group that is not supported: {pattern[start : start + 6]}")


def _repetition(pattern: str, start: int) -> tuple[str, int]:
    if found := _REPEATED.match(pattern, start):
        return found[0], found.end()
    raise PatternFault("has a { that begins no repetition such as {2}, {2,} or {0,5}: write \\{ for the brace")


def _escape(pattern: str, start: int) -> tuple[str, int]:
    """Outside of classes."""
    char = pattern[start + 1 : start + 2]
    if char in ("b", "B"):
        raise PatternFault(f"has a word boundary (\\{char}), which is not supported")
    if char and char in _REFERENCES:
        raise PatternFault(f"has a back-reference (\\{char}), which is not supported")
    member, end = _escaped(pattern, start)
    return _written([member]) if member.code is None else _literal(member.code), end


def _class(pattern: str, start: int) -> tuple[str, int]:
    place = start + 1
    is_negated = pattern.startswith("^", place)
    place += is_negated
    if pattern.startswith("]", place):
        raise PatternFault("begins a class with ]: write \\] for the bracket, [\\s\\S] for any character")
    members: list[_Member] = []
    while not pattern.startswith("]", place):
        first, place = _member(pattern, place)
        members.append(first)
        if not pattern.startswith("-", place) or pattern[place + 1 : place + 2] in ("]", ""):
            continue
        last, end = _member(pattern, place + 1)
        if first.code is None or last.code is None:  # such as \w-x: the dash is one of the characters
            members += [_one(ord("-")), last]
        elif first.code > last.code:
            raise PatternFault(f"has a range out of order: {pattern[place - 1 : end]}")
        else:
            members[-1] = _listed(((first.code, last.code),))
        place = end
    return _written(members, is_negated=is_negated), place + 1


def _member(pattern: str, place: int) -> tuple[_Member, int]:
    if place >= len(pattern):
        raise PatternFault("has a class without its ]")
    if pattern.startswith("[:", place):
        raise PatternFault("has a class of POSIX, such as [:alpha:], which ECMA-262 does not know; write a-zA-Z")
    if pattern.startswith("\\b", place):
        return _one(0x08), place + 2
    return _escaped(pattern, place) if pattern[place] == "\\" else (_one(ord(pattern[place])), place + 1)


def _escaped(pattern: str, start: int) -> tuple[_Member, int]:
    """What a backslash and what follows stand for."""
    char = pattern[start + 1 : start + 2]
    if (ranges := _CLASSES.get(char.lower())) is not None:
        inner = _listed(ranges)
        return inner if char.islower() else _Member(f"[^{inner.written}]", _complement(ranges)), start + 2
    if char in _CONTROLS:
        return _one(_CONTROLS[char]), start + 2
    if found := _PROPERTY.match(pattern, start + 1):
        return _Member(f"\\{found[0]}", None), found.end()
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


def _one(code: int) -> _Member:
    return _Member(f"\\x{{{code:X}}}", ((code, code),))


def _literal(code: int) -> str:
    if code == 0:
        raise PatternFault("asks for U+0000, which is not supported")
    return chr(code) if chr(code).isalnum() else f"\\x{{{code:X}}}"


def _listed(ranges: Ranges) -> _Member:
    return _Member("".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in ranges), ranges)


def _written(members: Iterable[_Member], *, is_negated: bool = False) -> str:
    """A class in Rust's syntax, without U+0000 unless it holds both the quote and the backslash. What is negated stays
    so: folding of cases comes before."""
    members = list(members)
    inside = "".join(member.written for member in members)
    if any(member.ranges is None for member in members):
        holds_nul, keeps_nul = True, False
    else:
        ranges = [each for member in members for each in member.ranges or ()]
        holds_nul = _covers(ranges, 0) != is_negated
        keeps_nul = all(_covers(ranges, code) != is_negated for code in _BOTH)
    if not holds_nul or keeps_nul:
        return f"[{'^' * is_negated}{inside}]"
    return rf"[^{inside}\x00]" if is_negated else rf"[{inside}&&[^\x00]]"


def _covers(ranges: Iterable[tuple[int, int]], code: int) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _complement(ranges: Ranges) -> Ranges:
    """Of ranges in order that do not touch each other."""
    firsts = (0, *(high + 1 for _, high in ranges))
    lasts = (*(low - 1 for low, _ in ranges), _LAST)
    return tuple(zip(firsts, lasts, strict=True))
