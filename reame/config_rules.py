"""What a config value may be: one frozen rule per key. A rule says what it expects and accepts nothing else.

Rules are strict where Python and cattrs are lenient: "4096" is not an integer, true is not an integer, a string is
not a list of letters, nan is not a number. An integer is fine where a number is expected.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any, Protocol

from attrs import Converter, field, frozen

_SHOWN = 40  # characters of a value or of an unknown key that a message repeats at most
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]{1,40}")
_HOST_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_NAME_OR_ANY = re.compile(rf"\*|{_HOST_NAME.pattern}")
_IP = re.compile(r"[0-9A-Fa-f:.]{2,45}(%[A-Za-z0-9._-]{1,15})?")
_ORIGIN = re.compile(r"\*|[a-z][a-z0-9+.-]*://(\[[0-9a-fA-F:.]+\]|[^\s/?#@\[\]:]+)(:[0-9]{1,5})?")


class Rule(Protocol):
    """`accept` returns the value as the config holds it, or raises ValueError("expected ..., got ...")."""

    def accept(self, value: object) -> Any: ...


def setting(default: Any, rule: Rule, why: str) -> Any:
    """One key of a config table: its default, its rule, and the line of why that the config file shows."""

    def accept(value: object, attribute: Any) -> Any:
        try:
            return rule.accept(value)
        except ValueError as error:
            raise ValueError(f"{attribute.name}: {error}") from None

    return field(default=default, converter=Converter(accept, takes_field=True), metadata={"rule": rule, "why": why})


@frozen
class Whole:
    """An integer in a closed range."""

    low: int
    high: int

    def accept(self, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise wrong(f"an integer from {self.low} to {self.high}", value)
        return value


@frozen
class Number:
    """A finite number in a closed range, kept as float."""

    low: float
    high: float

    def accept(self, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not self.low <= value <= self.high:
            raise wrong(f"a number from {self.low:g} to {self.high:g}", value)
        return float(value)


@frozen
class Flag:
    """true or false, and not 0, 1 or "yes"."""

    def accept(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise wrong("true or false", value)
        return value


@frozen
class Text:
    """A string on one line; empty only where empty has a meaning."""

    empty: bool = True

    def accept(self, value: object) -> str:
        if not isinstance(value, str):
            raise wrong("a string", value)
        if not value and not self.empty:
            raise wrong("a string that is not empty", value)
        if not value.isprintable():
            raise wrong("a string without control characters", value)
        return value


@frozen
class Place(Text):
    """The path of a file or a folder; `~` in front is a home directory, as in a shell."""

    def accept(self, value: object) -> str:
        return os.path.expanduser(Text.accept(self, value))


@frozen
class Choice:
    """One of a few strings."""

    choices: tuple[str, ...]

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise wrong("one of " + ", ".join(map(shown, self.choices)), value)
        return value


@frozen
class Host:
    """An address to bind: an IP address or a host name, no port, no brackets."""

    def accept(self, value: object) -> str:
        if not isinstance(value, str) or not (_HOST_NAME.fullmatch(value) or _is_ip(value)):
            raise wrong('an address such as "127.0.0.1", "::1" or "localhost"', value)
        return value


@frozen
class Origins:
    """A list of browser origins, as the Origin header has them (no path, no trailing slash), or "*"."""

    def accept(self, value: object) -> tuple[str, ...]:
        return _texts(value, _ORIGIN, 'a list of origins such as "https://example.org" or "*"')


@frozen
class Names:
    """A list of host names without ports, or "*"."""

    def accept(self, value: object) -> tuple[str, ...]:
        return _texts(value, _NAME_OR_ANY, 'a list of names such as "llm.example.org" or "*"')


def _texts(value: object, pattern: re.Pattern[str], expected: str) -> tuple[str, ...]:
    if isinstance(value, str | Mapping) or not isinstance(value, Sequence):
        raise wrong(expected, value)
    for item in value:
        if not isinstance(item, str) or not pattern.fullmatch(item):
            raise ValueError(f"expected {expected}, got a list with {shown(item)}")
    return tuple(value)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a socket bound to `host`. A name other than localhost may mean anything."""
    if not _is_ip(host):
        return host.lower() == "localhost"
    address = ip_address(host)
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback


def wrong(expected: str, value: object) -> ValueError:
    return ValueError(f"expected {expected}, got {shown(value)}")


def shown(value: object) -> str:
    """A value as a message repeats it: one line of printable ASCII, cut to a length; only the kind of a container."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and value.bit_length() > 64:
        return "an enormous integer"
    text = json.dumps(value) if isinstance(value, str | bool) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def key_shown(key: str) -> str:
    """One part of a dotted key as TOML writes it: bare when it can be, else quoted and escaped."""
    return key if _BARE_KEY.fullmatch(key) else shown(key)


def printable(path: object) -> str:
    """A path or a word of the command line on one printable line; also when it is not text at all."""
    text = str(path)
    return text if text and text.isprintable() else json.dumps(text)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return _IP.fullmatch(host) is not None
