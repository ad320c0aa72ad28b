"""JSON from strangers: bytes to a checked object, and typed reading of its fields. Pure.

Every fault is a RequestError (400) that names the field. Messages tell the kind of a wrong value and never repeat
text, so that a prompt cannot end up in a client's log. An explicit null is an absent field.
"""

from __future__ import annotations

from typing import Any

from reame.core import strict_json
from reame.core.strict_json import JsonFault
from reame.errors import RequestError

_SKY = 10**18
"""A bound that is there to keep numbers within 64 bits, and tells a person nothing."""


def parse_object(raw: bytes) -> dict[str, Any]:
    """The JSON object that is the whole of `raw`: UTF-8, and as strict as `reame.core.strict_json`."""
    try:
        value = strict_json.parse(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RequestError(f"The body is not UTF-8 (byte {error.start}).") from None
    except JsonFault as fault:
        raise RequestError(f"The body {fault}") from None
    if not isinstance(value, dict):
        raise RequestError(f"The body must be a JSON object, not {kind(value)}.")
    return value


def kind(value: Any) -> str:
    """What `value` is, for a message; a number as it is, text never."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value) if abs(value) < 1e18 else "an enormous number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    return "a list" if isinstance(value, list) else "an object"


def _whole_range(low: int, high: int) -> str:
    if high < _SKY:
        return f"an integer from {low} to {high}"
    return f"an integer of at least {low}" if low > -_SKY else "an integer of 64 bits"


class Fields:
    """One JSON object, read field by field. `path` is its place in the body, as the errors' `param` shows it."""

    def __init__(self, values: dict[str, Any], path: str = "") -> None:
        self.values = values
        self.path = path

    def get(self, name: str) -> Any:
        """The raw value; None for absent and for null."""
        return self.values.get(name)

    def param(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name

    def fault(self, name: str, message: str, *, code: str | None = None) -> RequestError:
        """A RequestError about field `name`; `message` goes on after its name."""
        return RequestError(f"{self.param(name)} {message}", param=self.param(name), code=code)

    def wrong(self, name: str, expected: str) -> RequestError:
        return self.fault(name, f"must be {expected}, not {kind(self.values.get(name))}.")

    def flag(self, name: str) -> bool:
        """A boolean, false when absent."""
        value = self.values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, "a string")
        return value

    def whole(self, name: str, low: int, high: int) -> int | None:
        """An integer in a closed range; 5.0 counts as 5, as some languages write it so."""
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.wrong(name, _whole_range(low, high))
        return value

    def number(self, name: str, low: float, high: float, *, above: bool = False) -> float | None:
        """A number in a closed range; with `above` the lower end is not part of it."""
        value = self.values.get(name)
        if value is None:
            return None
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        if not fits or (above and value == low):
            span = f"above {low:g} and at most {high:g}" if above else f"from {low:g} to {high:g}"
            raise self.wrong(name, f"a number {span}")
        return float(value)

    def parsed(self, name: str) -> Any:
        """The JSON that the field's text is, read by the rules of a body."""
        try:
            return strict_json.parse(self.text(name) or "")
        except JsonFault as fault:
            raise self.fault(name, str(fault)) from None

    def record(self, name: str) -> Fields | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.wrong(name, "an object")
        return Fields(value, self.param(name))

    def texts(self, name: str) -> list[str] | None:
        """A list that holds nothing but strings."""
        value = self.array(name)
        if value is not None and not all(isinstance(item, str) for item in value):
            raise self.fault(name, "must be a list of strings.")
        return value

    def array(self, name: str) -> list[Any] | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, list):
            raise self.wrong(name, "a list")
        return value
