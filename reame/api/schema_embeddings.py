"""`POST /v1/embeddings`: from the body's bytes to the texts that are wanted as vectors. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.api.schema_fields import Fields, kind, parse_object

if TYPE_CHECKING:
    from reame.api.schema import Limits

MOST_INPUTS = 2048


@frozen(kw_only=True)
class EmbeddingsWanted:
    """A body of `/v1/embeddings`, checked. `of` is the model's name, "" for any; `dimensions` None: all there are."""

    inputs: tuple[str | tuple[int, ...], ...]
    of: str
    base64: bool
    dimensions: int | None
    model: str = ""
    """The generating model has no part in it."""


def read_embeddings(raw: bytes, limits: Limits) -> EmbeddingsWanted:
    """Raises RequestError (400) with the field at fault."""
    fields = Fields(parse_object(raw))
    shape = fields.text("encoding_format")
    if shape not in (None, "float", "base64"):
        raise fields.fault("encoding_format", 'must be "float" or "base64".')
    return EmbeddingsWanted(
        inputs=_inputs(fields),
        of=fields.text("model") or "",
        base64=shape == "base64",
        dimensions=fields.whole("dimensions", 1, 10**6),
    )


def _inputs(fields: Fields) -> tuple[str | tuple[int, ...], ...]:
    value = fields.get("input")
    if isinstance(value, str):
        return (_one(fields, "input", value),)
    if value is None:
        raise fields.fault("input", "is required.")
    if not isinstance(value, list) or not value:
        what = "an empty list" if value == [] else kind(value)
        raise fields.fault("input", f"must be a string, token ids, or a list of either, not {what}.")
    if _is_tokens(value):
        return (_one(fields, "input", value),)
    if len(value) > MOST_INPUTS:
        raise fields.fault("input", f"may have at most {MOST_INPUTS} texts, not {len(value)}.")
    return tuple(_one(fields, f"input[{index}]", item) for index, item in enumerate(value))


def _one(fields: Fields, name: str, item: Any) -> str | tuple[int, ...]:
    """How long it may be, and which token ids there are, only its model knows."""
    if item in ("", []):
        raise fields.fault(name, "is empty.")
    if isinstance(item, str):
        return item
    if isinstance(item, list) and _is_tokens(item):
        if min(item) < 0:
            raise fields.fault(name, "has a token id below 0.")
        return tuple(item)
    raise fields.fault(name, f"must be a string or a list of token ids, not {kind(item)}.")


def _is_tokens(value: list[Any]) -> bool:
    return set(map(type, value)) == {int}
