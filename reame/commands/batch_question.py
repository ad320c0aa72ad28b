"""What is asked of each row of a table: the options of `reame batch` for it, checked, and a row's request."""

from __future__ import annotations

import json
import re
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.batch.line import CHAT, canonical
from reame.commands.batch_rows import DELIMITERS, table_of, text_of
from reame.config_rules import printable
from reame.constraint.fault import ConstraintFault, shown
from reame.constraint.schema_check import check_schema
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reame.commands.batch_rows import Table

_PLACE = re.compile(r"\{\{(\w+)\}\}|\{([^{}\n\"]{1,200})\}")
"""`{column}`, or `{{word}}` for the word in braces itself."""
ANSWER, ERROR = "answer", "error"


@frozen(kw_only=True)
class Question:
    """What is asked of each row of the table. `columns` empty: all. `schema` None: the answer is text."""

    table: Table
    template: str
    columns: tuple[str, ...]
    schema: Mapping[str, Any] | None
    max_tokens: int

    @property
    def properties(self) -> list[str]:
        """Those of the schema that become columns; none: the whole answer becomes one."""
        shape = self.schema or {}
        return list(shape.get("properties") or ()) if shape.get("type") == "object" else []


def read_question(
    given: Path | None,
    *,
    csv: Path | None,
    delimiter: str,
    prompt_file: Path | None,
    columns: Sequence[str],
    schema: Path | None,
    max_tokens: int,
) -> Question | None:
    """None: there is an input of lines. Raises ConfigError for options that do not go together, or files that are not
    what they should be."""
    if csv is None:
        if prompt_file or columns or schema or delimiter:
            raise ConfigError(
                "--prompt-file, --column, --schema and --delimiter are for the rows of a table: add --csv TABLE"
            )
        if given is None:
            raise ConfigError("there is nothing to do: name a file of JSON lines, or a table with --csv")
        return None
    if given is not None:
        raise ConfigError("an input of JSON lines and --csv are both there: leave one out")
    if prompt_file is None:
        raise ConfigError("--csv needs the question: write it into a file and add --prompt-file FILE")
    if max_tokens < 1:
        raise ConfigError("--max-tokens is a number of at least 1")
    delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
    if delimiter and delimiter not in DELIMITERS:
        raise ConfigError("--delimiter is a comma, a semicolon, a bar or a tab (as \\t)")
    template = text_of(prompt_file).strip()
    if not template:
        raise ConfigError(f"{printable(prompt_file)}: empty; write the instruction into it")
    shape = None if schema is None else _schema_of(schema)
    table = table_of(csv, delimiter)
    question = Question(table=table, template=template, columns=tuple(columns), schema=shape, max_tokens=max_tokens)
    with table.rows() as found:
        _check(question, prompt_file, next(found))
    return question


def new_columns(question: Question, header: Sequence[str]) -> list[str]:
    """Names of the columns that are added, the last one for errors. Raises ConfigError when one is there already."""
    names = [*(question.properties or [ANSWER]), ERROR]
    if there := [name for name in names if name in header]:
        raise ConfigError(
            f"{printable(question.table.name)}: has a column {there[0]!r} already, which would be added: rename one of "
            "them"
        )
    if ERROR in question.properties:
        raise ConfigError(f"the schema has a property {ERROR!r}, which is the column of what went wrong: rename it")
    return names


def request_of(question: Question, header: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """The line of the input for a row. Its `custom_id` is the same for all rows of which the same is asked, wherever
    they stand and however long the answer may be."""
    fields = dict(zip(header, row, strict=False))
    body: dict[str, Any] = {"messages": _messages(question, fields)}
    if question.schema is not None:
        shape = {"name": "row", "schema": question.schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": shape}
    name = f"row-{blake2b(canonical(body), digest_size=12).hexdigest()}"
    body |= {"temperature": 0, "max_tokens": question.max_tokens}
    return {"custom_id": name, "method": "POST", "url": CHAT, "body": body}


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
            raise ConfigError(f"--column: {printable(question.table.name)} has no column {name!r}; it has {known}")
    for _, name in _PLACE.findall(question.template):
        if name.isidentifier() and name not in header:
            raise ConfigError(
                f"{printable(prompt_file)}: {{{name}}} is no column of {printable(question.table.name)}, which has "
                f"{known}; write {{{{{name}}}}} for the word in braces itself"
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
    try:
        check_schema(value)
    except ConstraintFault as fault:
        place = shown((*fault.path, fault.keyword) if fault.keyword else fault.path)
        raise ConfigError(f"{printable(path)}: {place} {fault.message}") from None
    return value
