"""The grammar of an answer that may call tools, or must; see `core.tools` for the form of a call."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reame.constraint.schema_tree import COMBINING
from reame.core.tools import CLOSE, MOST_CALLS, OPEN

if TYPE_CHECKING:
    from collections.abc import Sequence

_AS_TAUGHT = {"whitespace_flexible": False, "key_separator": ": ", "item_separator": ", "}
"""The blanks that models were taught to write in calls."""
_COMPACT = {"whitespace_flexible": False}


def of_object(schema: Any) -> Any:
    """A tool's `parameters` as a schema of the object that they are; one that names none takes none."""
    if not isinstance(schema, dict):
        return schema
    names_some = schema.get("properties", {}) != {} or any(
        keyword in schema for keyword in (*COMBINING, "additionalProperties", "patternProperties")
    )
    nothing = {} if names_some else {"properties": {}, "additionalProperties": False}
    kind = schema.get("type", "object")
    may_be_none = isinstance(kind, list) and "object" in kind
    return schema | {"type": "object" if may_be_none else kind} | nothing


def tool_grammar(
    names: Sequence[str],
    schemas: Sequence[dict[str, Any]],
    *,
    must: bool,
    parallel: bool,
    answer: dict[str, Any] | None = None,
) -> str:
    """Lark. `must`: the answer is a call; else it is any text, and perhaps a call after it; or with the schema `answer`
    JSON of it or a call. `parallel`: there may be more calls behind the first. The schemas are those of the arguments,
    and compile."""
    calls = f'call ("\\n{OPEN}" call){{0,{MOST_CALLS - 1}}}' if parallel else "call"
    if must:
        start = f'start: "{OPEN}" {calls}'
    elif answer is not None:
        start = f'start: answer | "{OPEN}" {calls}\nanswer: %json {json.dumps({**answer, "x-guidance": _COMPACT})}'
    else:
        start = f'start: TEXT | begun {calls}\nbegun[lazy]: TEXT "{OPEN}"\nTEXT: /(?s:.*)/'
    rules = [
        start,
        f"call: {' | '.join(f'call_{number}' for number in range(len(names)))}",
    ]
    end = json.dumps(f"}}\n{CLOSE}")
    for number, (name, schema) in enumerate(zip(names, schemas, strict=True)):
        head = json.dumps(f'\n{{"name": {json.dumps(name)}, "arguments": ')
        rules.append(f"call_{number}: {head} arguments_{number} {end}")
        rules.append(f"arguments_{number}: %json {json.dumps({**schema, 'x-guidance': _AS_TAUGHT})}")
    return "\n".join(rules)
