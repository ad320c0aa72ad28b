"""`/v1/files` and `/v1/batches`: what is ordered, and which part of a list is wanted. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.api.schema_fields import Fields, parse_object
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

URLS = ("/v1/chat/completions", "/v1/completions")
MOST_METADATA = 16
MOST_METADATA_CHARS = (64, 512)
"""Of a key and of a value, as OpenAI has it."""
_WINDOW = re.compile(r"([1-9][0-9]{0,2})([hd])")
_SECONDS = {"h": 3600, "d": 86_400}


@frozen(kw_only=True)
class BatchWanted:
    """A body of `POST /v1/batches`, checked; the window in seconds too."""

    file: str
    endpoint: str
    window: str
    seconds: int
    metadata: Mapping[str, str] | None


def read_batch(raw: bytes) -> BatchWanted:
    """Raises RequestError (400) with the field at fault."""
    fields = Fields(parse_object(raw))
    endpoint = _required(fields, "endpoint")
    if endpoint not in URLS:
        raise fields.fault("endpoint", f"must be {' or '.join(URLS)}.")
    window = _required(fields, "completion_window")
    match = _WINDOW.fullmatch(window)
    if match is None:
        raise fields.fault("completion_window", 'must be hours or days, such as "24h" or "7d".')
    return BatchWanted(
        file=_required(fields, "input_file_id"),
        endpoint=endpoint,
        window=window,
        seconds=int(match[1]) * _SECONDS[match[2]],
        metadata=_metadata(fields),
    )


def _required(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not value:
        raise fields.fault(name, "is required.")
    return value


def _metadata(fields: Fields) -> Mapping[str, str] | None:
    table = fields.record("metadata")
    if table is None:
        return None
    values = table.values
    key_chars, value_chars = MOST_METADATA_CHARS
    fits = len(values) <= MOST_METADATA and all(
        isinstance(value, str) and len(key) <= key_chars and len(value) <= value_chars for key, value in values.items()
    )
    if not fits:
        bounds = f"{value_chars} characters, named by at most {key_chars}"
        raise fields.fault("metadata", f"may have {MOST_METADATA} texts of at most {bounds}.")
    return values


def page(listed: Sequence[dict[str, Any]], query: Mapping[str, str], most: int) -> dict[str, Any]:
    """The part of a list, newest first, that `limit`, `after` and `order` of a query ask for, as OpenAI's list."""
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise RequestError('order must be "asc" or "desc".', param="order")
    text = query.get("limit", str(most))
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= 10_000):
        raise RequestError("limit must be an integer from 1 to 10000.", param="limit")
    names = [each["id"] for each in listed]
    ordered = list(listed) if order == "desc" else list(reversed(listed))
    after = query.get("after")
    if after is not None:
        if after not in names:
            raise RequestError("after names nothing in this list.", param="after")
        ordered = ordered[[each["id"] for each in ordered].index(after) + 1 :]
    part = ordered[: int(text)]
    return {
        "object": "list",
        "data": part,
        "first_id": part[0]["id"] if part else None,
        "last_id": part[-1]["id"] if part else None,
        "has_more": len(part) < len(ordered),
    }
