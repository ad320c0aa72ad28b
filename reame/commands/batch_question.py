"""What is asked of each row of a table: the options of `reame batch` for it, checked, and a row's request."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.batch.line import CHAT
from reame.commands.batch_rows import rows, text_of
from reame.config_rules import printable
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([^{}\n\"]{1,200})\}")
"""`{column}`, or `{{word}}` for the word in braces itself."""
ANSWER, ERROR = "answer", "error"


@frozen(kw_only=True)
class Question:
    """What is asked of each row of the table. `columns` empty: all. `schema` None: the answer is text."""

    table: Path
    template: str
    columns: tuple[str, ...]
    schema: Mapping[str, Any] | None
    max_tokens: int


def read_question(
    given: Path | None,
    *,
    csv: Path | None,
    prompt_file: Path | None,
    columns: Sequence[str],
    schema: Path | None,
    max_tokens: int,
) -> Question | None:
    """None: there is an input of lines. Raises ConfigError for options that do not go together, or files that are not
    what they should be."""
    if csv is None:
        if prompt_file or columns or schema:
            raise ConfigError("--prompt-file, --column and --schema ask about the rows of a table: add --csv TABLE")
        if given is None:
            raise ConfigError("there is nothing to do: name a file of JSON lines, or a table with --csv")
        return None
    if given is not None:
        raise ConfigError("an input of JSON lines and --csv are both there: leave one out")
    if prompt_file is None:
        raise ConfigError("--csv needs the question: write it into a file and add --prompt-file FILE")
    if max_tokens < 1:
        raise ConfigError("--max-tokens is a number of at least 1")
    template = text_of(prompt_file).strip()
    if not template:
        raise ConfigError(f"{printable(prompt_file)}: empty; write the instruction into it")
    shape = None if schema is None else _schema_of(schema)
    question = Question(table=csv, template=template, columns=tuple(columns), schema=shape, max_tokens=max_tokens)
    with rows(csv) as found:
        _check(question, prompt_file, next(found))
    return question


def new_columns(question: Question, header: Sequence[str]) -> list[str]:
    """Names of the columns that are added. Raises ConfigError when one is there already."""
    shape = question.schema or {}
    names = list(shape.get("properties") or ()) if shape.get("type") == "object" else []
    names = [*(names or [ANSWER]), ERROR]
    if there := [name for name in names if name in header]:
        raise ConfigError(
            f"{printable(question.table)}: has a column {there[0]!r} already, which would be added: rename one of them"
        )
    return names


def request_of(question: Question, number: int, header: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """The line of the input for row `number`."""
    fields = dict(zip(header, row, strict=False))
    body: dict[str, Any] = {"messages": _messages(question, fields)}
    body |= {"temperature": 0, "max_tokens": question.max_tokens}
    if question.schema is not None:
        shape = {"name": "row", "schema": question.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    return {"custom_id": f"row-{number}", "method": "POST", "url": CHAT, "body": body}


def _messages(question: Question, fields: Mapping[str, str]) -> list[dict[str, str]]:
    """The instruction first, so that rows have it in common."""
    text, num_places = _filled(question.template, lambda name: fields.get(name, ""), set(fields))
    if num_places:
        return [{"role": "user", "content": text}]
    about = "\n".join(f"{name}: {fields.get(name, '')}" for name in question.columns or fields)
    return [{"role": "system", "content": text}, {"role": "user", "content": about}]


def _filled(template: str, value: Callable[[str], str], columns: set[str]) -> tuple[str, int]:
    """The template with its places filled in, and how many there were. Braces around anything else stay."""
    num_places = 0

    def fill(match: re.Match[str]) -> str:
        nonlocal num_places
        if match[1]:
            return "{" + match[1] + "}"
        if match[2] not in columns:
            return match[0]
        num_places += 1
        return value(match[2])

    return _PLACE.sub(fill, template), num_places


def _check(question: Question, prompt_file: Path, header: Sequence[str]) -> None:
    known = ", ".join(header)
    for name in question.columns:
        if name not in header:
            raise ConfigError(f"--column: {printable(question.table)} has no column {name!r}; it has {known}")
    for _, name in _PLACE.findall(question.template):
        if name.isidentifier() and name not in header:
            raise ConfigError(
                f"{printable(prompt_file)}: {{{name}}} is no column of {printable(question.table)}, which has {known}; "
                f"write {{{{{name}}}}} for the word in braces itself"
            )
    if question.columns and _filled(question.template, str, set(header))[1]:
        raise ConfigError(f"{printable(prompt_file)} says itself where columns belong: leave out --column")
    new_columns(question, header)


def _schema_of(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(text_of(path))
    except (ValueError, RecursionError):
        raise ConfigError(f"{printable(path)}: not JSON; --schema is a JSON Schema") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{printable(path)}: not an object; --schema is a JSON Schema")
    return value
