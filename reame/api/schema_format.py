"""What an answer must be: `response_format`, our own fields, and other servers' names for the same. Pure.

Only the shape of these fields is checked here. Whether a schema, a regular expression or a grammar can be held to is
found when it is compiled for the model (`constraint.compiler`), and is a 400 as well.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.api.schema_fields import Fields, kind
from reame.core.constraint import MAX_SOURCE_CHARS, OF_JSON, Constraint
from reame.core.labels import MOST_RATED, labels_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.core.constraint import Kind

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_OWN: dict[str, Kind] = {"regex": "regex", "choice": "choice", "grammar": "grammar"}
_VLLM: dict[str, Kind] = {"json": "json_schema", **_OWN}
_TOP: dict[str, Kind] = {
    **{f"guided_{name}": each for name, each in _VLLM.items()},
    "json_schema": "json_schema",
    "grammar": "grammar",
}
"""Other servers' fields at the top of a request."""
OWN_FIELDS = (*_OWN, "answers", "heal", "background", "vote", "early_stop", "confidence")
"""All that `reame` may hold."""
FORM_FIELDS = (*_TOP, "structured_outputs", "structural_tag")
"""Fields beside `reame` that say what an answer must be, on every endpoint that answers."""


@frozen
class Format:
    """A constraint (None: any text will do), and the field that asked for it."""

    constraint: Constraint | None = None
    field: str = ""


def read_format(fields: Fields) -> Format:
    """Raises RequestError (400) with the field at fault, also when two fields ask for something."""
    asked = list(_asked(fields))
    if len(asked) > 1:
        raise fields.fault(asked[1].field, f"and {asked[0].field} are both there: send one of them.")
    return asked[0] if asked else Format()


def schema_constraint(schema: Any) -> Constraint:
    """Of a JSON Schema; its keys keep their order, which is that of the answer's."""
    return Constraint("json_schema", _canonical(schema))


def choice_constraint(labels: list[str]) -> Constraint:
    """Of labels, of which the answer is one."""
    return Constraint("choice", _canonical(list(dict.fromkeys(labels))))


def read_confidence(fields: Fields, form: Format, *, logprobs: int | None) -> bool:
    """Whether the probabilities of the labels, or of the fields of the JSON, are wanted: `{"reame": {"confidence":
    true}}`; when it is not said, with `logprobs`. Raises RequestError (400)."""
    own = fields.record("reame")
    can_tell = form.constraint is not None and form.constraint.kind in ("choice", *OF_JSON)
    if own is None or own.get("confidence") is None:
        return can_tell and logprobs is not None
    wanted = own.flag("confidence")
    if wanted and not can_tell:
        raise own.fault("confidence", "needs an answer that is JSON (response_format) or a label (reame.choice).")
    if wanted and len(labels_of(form.constraint)) > MOST_RATED:
        raise own.fault("confidence", f"can be told for {MOST_RATED} labels at most.")
    return wanted


def names_confidence(fields: Fields) -> bool:
    """Whether `{"reame": {"confidence": true}}` is there: with `logprobs` alone it may be left out."""
    own = fields.record("reame")
    return own is not None and own.flag("confidence")


def _asked(fields: Fields) -> Iterator[Format]:
    response = fields.record("response_format")
    if response is not None:
        yield from _of_response_format(response)
    own, vllm = fields.record("reame"), fields.record("structured_outputs")
    if own is not None:
        _check_names(own)
        yield from _of_named(own, _OWN)
    if vllm is not None:
        yield from _of_vllm(vllm)
    yield from _of_named(fields, _TOP, absent=(None, ""))


def _of_response_format(response: Fields) -> Iterator[Format]:
    match response.text("type"):
        case "text":
            pass
        case "json_object":
            schema = response.get("schema")
            constraint = Constraint("json_object") if schema is None else _constraint(response, "schema", "json_schema")
            yield Format(constraint, response.path if schema is None else response.param("schema"))
        case "json_schema":
            inner = response.record("json_schema")
            if inner is None:
                raise response.fault("json_schema", "is required beside this type.")
            yield _of_json_schema(inner)
        case _:
            raise response.fault("type", 'must be "text", "json_object" or "json_schema".')


def _of_json_schema(inner: Fields) -> Format:
    """`name` and `description` are for the client; `strict` changes nothing, as every answer is held to its schema."""
    name = inner.text("name")
    if name is not None and not NAME.fullmatch(name):
        raise inner.fault("name", "must have 1 to 64 letters, digits, underscores or dashes.")
    inner.flag("strict")
    inner.text("description")
    if inner.get("schema") is None:
        raise inner.fault("schema", "is required.")
    return Format(_constraint(inner, "schema", "json_schema"), inner.param("schema"))


def _check_names(own: Fields) -> None:
    """Nothing in `reame` is another server's, so that a name nobody knows is a slip, perhaps in what the answer must
    be."""
    for name in own.values:
        if name not in OWN_FIELDS:
            near = get_close_matches(name, OWN_FIELDS, 1)
            raise own.fault(
                name[:64], f"is not known; did you mean {near[0]}?" if near else f"is none of {', '.join(OWN_FIELDS)}."
            )


def _of_vllm(fields: Fields) -> Iterator[Format]:
    yield from _of_named(fields, _VLLM)
    if fields.flag("json_object"):
        yield Format(Constraint("json_object"), fields.param("json_object"))
    if fields.values and not any(name in fields.values for name in (*_VLLM, "json_object", "structural_tag")):
        raise Fields({}).fault(fields.path, f"names none of {', '.join(_VLLM)}, json_object.")
    if fields.get("structural_tag") is not None:
        raise fields.fault("structural_tag", "is not supported: use json, regex, choice, grammar or json_object.")


def _of_named(fields: Fields, names: dict[str, Kind], absent: tuple[Any, ...] = (None,)) -> Iterator[Format]:
    for name, what in names.items():
        if fields.get(name) not in absent:
            yield Format(_constraint(fields, name, what), fields.param(name))


def _constraint(fields: Fields, name: str, what: Kind) -> Constraint:
    """No longer than what is compiled: whoever reads its source again, does so at once."""
    constraint = _any_constraint(fields, name, what)
    size = len(constraint.source)
    if size > MAX_SOURCE_CHARS:
        raise fields.fault(name, f"has {size} characters; at most {MAX_SOURCE_CHARS} are supported.")
    return constraint


def _any_constraint(fields: Fields, name: str, what: Kind) -> Constraint:
    if what == "json_schema":
        return schema_constraint(_schema(fields, name))
    if what == "choice":
        return choice_constraint(_labels(fields, name))
    text = fields.text(name)
    if not text:
        raise fields.wrong(name, "a text that is not empty")
    return Constraint(what, text)


def _schema(fields: Fields, name: str) -> Any:
    """An object, true or false; or the JSON text of one, as some clients send it."""
    value = fields.get(name)
    if isinstance(value, str):
        value = fields.parsed(name)
    if not isinstance(value, dict | bool):
        raise fields.fault(name, f"must be a JSON Schema, which is an object, not {kind(value)}.")
    return value


def _labels(fields: Fields, name: str) -> list[str]:
    labels = fields.texts(name)
    if not labels or not all(labels):
        raise fields.fault(name, "must be a list of texts, none of them empty, and not be empty itself.")
    return labels


def _canonical(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
