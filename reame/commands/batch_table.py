"""A table and a question as a batch: each row becomes a line of the input, each result new columns of its row.

The input made of it is a file beside nothing, gone with the process; what lasts are the results, in a file beside the
table: `OUTPUT.jsonl`. Bound: one row in memory.
"""

from __future__ import annotations

import csv
import json
import os
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from attrs import frozen

from reame.batch.line import CHAT, MAX_LINE
from reame.batch.result import read_result
from reame.config_rules import printable
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

DELIMITERS = ",;\t|"
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


@frozen(kw_only=True)
class Lines:
    """The input made of a table, and what is wrong with rows, by the number of their line in it."""

    path: Path
    faults: Mapping[int, str]


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
    template = _text_of(prompt_file).strip()
    if not template:
        raise ConfigError(f"{printable(prompt_file)}: empty; write the instruction into it")
    shape = None if schema is None else _schema_of(schema)
    question = Question(
        table=csv, template=template, columns=tuple(columns), schema=shape, max_tokens=max_tokens
    )
    with _rows(csv) as rows:
        _check(question, prompt_file, next(rows))
    return question


@contextmanager
def as_lines(question: Question) -> Iterator[Lines]:
    """The table as an input, while the block runs."""
    faults: dict[int, str] = {}
    with tempfile.NamedTemporaryFile("wb", prefix="reame-", suffix=".jsonl") as file, _rows(question.table) as rows:
        header = next(rows)
        for number, row in enumerate(rows, 1):
            if len(row) != len(header):
                faults[number] = f"the row has {len(row)} fields and the header {len(header)}: see its quotes"
            file.write(json.dumps(_request(question, number, header, row), ensure_ascii=False).encode() + b"\n")
        file.flush()
        yield Lines(path=Path(file.name), faults=faults)


def write_table(question: Question, output: Path, results: Iterable[tuple[int, bytes]]) -> None:
    """The table with its new columns. `results` are (number of the row, line of the output), in order, one for each."""
    temporary = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file, _rows(question.table) as rows:
            header = next(rows)
            new = _new_columns(question, header)
            writer = csv.writer(file, delimiter=_delimiter(question.table), lineterminator="\n")
            writer.writerow([*header, *new])
            for row, (_, line) in zip(rows, results, strict=True):
                padded = (row + [""] * len(header))[: max(len(row), len(header))]
                writer.writerow([*padded, *_cells(question, new[:-1], line)])
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(output)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _cells(question: Question, names: Sequence[str], line: bytes) -> list[str]:
    """The values of the new columns, the last one an error."""
    nothing = [""] * len(names)
    result = read_result(line)
    assert result is not None
    if not result.is_good:
        return [*nothing, str((result.error or {}).get("message"))]
    (choice,) = result.response["body"]["choices"]
    text = str(choice["message"]["content"])
    is_cut = choice["finish_reason"] == "length"
    if question.schema is None:
        return [text, "cut at --max-tokens" if is_cut else ""]
    try:
        value = json.loads(text)
    except ValueError:
        return [*nothing, "cut at --max-tokens: raise it" if is_cut else "the answer is no JSON"]
    if names == [ANSWER]:
        return [_cell(value), ""]
    return [*(_cell(value.get(name)) for name in question.schema["properties"]), ""]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _new_columns(question: Question, header: Sequence[str]) -> list[str]:
    """Names of the columns that are added. Raises ConfigError when one is there already."""
    shape = question.schema or {}
    names = list(shape.get("properties") or ()) if shape.get("type") == "object" else []
    names = [*(names or [ANSWER]), ERROR]
    if there := [name for name in names if name in header]:
        raise ConfigError(
            f"{printable(question.table)}: has a column {there[0]!r} already, which would be added: rename one of them"
        )
    return names


def _request(question: Question, number: int, header: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
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
    _new_columns(question, header)


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[list[str]]]:
    """The header, then the rows; blank lines are none. Raises ConfigError for what is no table."""
    csv.field_size_limit(MAX_LINE)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = (row for row in csv.reader(file, delimiter=_delimiter(path), strict=True) if row)
            yield _told(path, rows)
    except OSError as error:
        _unreadable(path, error)


def _told(path: Path, rows: Iterator[list[str]]) -> Iterator[list[str]]:
    try:
        header = next(rows, [])
        if not header or len(set(header)) != len(header) or not all(header):
            raise ConfigError(f"{printable(path)}: the first line must name each column, all names different")
        yield header
        yield from rows
    except UnicodeDecodeError as error:
        raise ConfigError(f"{printable(path)}: not UTF-8 text ({error.reason}): convert it first") from None
    except csv.Error as error:
        raise ConfigError(f"{printable(path)}: not a table of comma-separated values: {error}") from None


def _delimiter(path: Path) -> str:
    """The one that the header has most of."""
    with path.open("rb") as file:
        header = file.readline(MAX_LINE).decode("utf-8-sig", "replace")
    return max(DELIMITERS, key=header.count)


def _schema_of(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_text_of(path))
    except (ValueError, RecursionError):
        raise ConfigError(f"{printable(path)}: not JSON; --schema is a JSON Schema") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{printable(path)}: not an object; --schema is a JSON Schema")
    return value


def _text_of(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        _unreadable(path, error)


def _unreadable(path: Path, error: Exception) -> NoReturn:
    if isinstance(error, UnicodeDecodeError):
        raise ConfigError(f"{printable(path)}: not UTF-8 text (byte {error.start + 1})") from None
    reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
    raise ConfigError(f"{printable(path)}: cannot be read: {reason.lower()}") from None
