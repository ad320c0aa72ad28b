"""The JSON value in a text, in a form in which equal values are equal strings, and its leaves. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator

_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)
_NO_VALUE = object()


def whole_json(text: str) -> Any:
    """The object or list that is all of the text, or all of its one fenced block; else None."""
    fenced = _FENCE.fullmatch(text.strip())
    value = _parsed(fenced[1] if fenced else text)
    return value if isinstance(value, dict | list) else None


def find_json(text: str) -> tuple[Any] | None:
    """The value that the text is; else that of its last fenced block that is one; else the first object or list in
    it. In a tuple, as null is a value too."""
    for part in (text, *reversed(_FENCE.findall(text))):
        if (value := _parsed(part)) is not _NO_VALUE:
            return (value,)
    start = re.search(r"[{\[]", text)
    if start:
        try:
            return (_DECODER.raw_decode(text, start.start())[0],)
        except (ValueError, RecursionError):
            return None
    return None


def canonical(value: Any) -> str:
    """Compact JSON with sorted keys; 1, 1.0 and 1e0 are the same number."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def leaves(value: Any) -> tuple[tuple[str, str], ...]:
    """Path and canonical value of all that an object holds; a list is one value. Nothing for what is no object."""
    return tuple(_leaves(value, "")) if isinstance(value, dict) else ()


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key in sorted(value):
            name = key.replace(".", r"\.")
            yield from _leaves(value[key], f"{path}.{name}" if path else name)
    else:
        yield path, canonical(value)


def _number(text: str) -> int | float:
    """One that is whole as an int."""
    number = float(text)
    return int(number) if number.is_integer() else number


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_refuse)


def _parsed(text: str) -> Any:
    try:
        return _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return _NO_VALUE
