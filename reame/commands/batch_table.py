"""A table as a batch: each row becomes a line of an input, each result new columns of its row.

The input and a copy of the table, which people may change meanwhile, are files that are gone with the process; what
lasts are the results, in a file beside the table: `OUTPUT.jsonl`. Bound: one row in memory, and a name for each.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from attrs import evolve, frozen

from reame.batch.result import read_result
from reame.batch.scratch import no_room
from reame.commands.batch_question import new_columns, request_of
from reame.commands.batch_rows import unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from reame.commands.batch_question import Question


@frozen(kw_only=True)
class Lines:
    """The input made of a table, what is wrong with rows, by the number of their line in it, and the question with the
    table as it was then."""

    path: Path
    faults: Mapping[int, str]
    question: Question


@contextmanager
def as_lines(question: Question) -> Iterator[Lines]:
    """The table as an input, while the block runs."""
    faults: dict[int, str] = {}
    seen: Counter[str] = Counter()
    with ExitStack() as stack:
        file, copy = _temporary(stack, ".jsonl"), _temporary(stack, ".csv")
        _copy(question.table.path, copy)
        asked = evolve(question, table=evolve(question.table, path=Path(copy.name)))
        with asked.table.rows() as found:
            header = next(found)
            new_columns(asked, header)
            for number, row in enumerate(found, 1):
                if len(row) != len(header):
                    faults[number] = f"the row's fields are {len(row)}, the header's {len(header)}: see its quotes"
                line = request_of(asked, header, row)
                seen[line["custom_id"]] += 1
                if (times := seen[line["custom_id"]]) > 1:
                    line["custom_id"] += f"-{times}"
                _write(file, json.dumps(line, ensure_ascii=False).encode() + b"\n")
        yield Lines(path=Path(file.name), faults=faults, question=asked)


def _temporary(stack: ExitStack, suffix: str) -> IO[bytes]:
    try:
        return stack.enter_context(tempfile.NamedTemporaryFile("wb", prefix="reame-", suffix=suffix, buffering=0))
    except OSError as error:
        raise no_room(error) from None


def _copy(source: Path, copy: IO[bytes]) -> None:
    try:
        file = source.open("rb")
    except OSError as error:
        raise unreadable(source, error) from None
    with file:
        try:
            shutil.copyfileobj(file, copy)
        except OSError as error:
            raise no_room(error) from None


def _write(file: IO[bytes], line: bytes) -> None:
    try:
        done = 0
        while done < len(line):
            done += file.write(line[done:])
    except OSError as error:
        raise no_room(error) from None


def write_table(question: Question, output: Path, results: Iterable[tuple[int, bytes]]) -> None:
    """The table with its new columns, a byte order mark and CRLF where the old one has them. `results` are (number of
    the row, line of the output), in order, one for each. A link stays a link, to the new file."""
    target = Path(os.path.realpath(output))
    temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
    encoding, end = question.table.style()
    try:
        with (
            temporary.open("w", encoding=encoding, errors="backslashreplace", newline="") as file,
            question.table.rows() as found,
        ):
            header = next(found)
            write = _writer(file, question.table.delimiter, end)
            write([*header, *new_columns(question, header)])
            for row, (number, line) in zip(found, results, strict=True):
                *values, error = _cells(question, line)
                fitted = _fitted(row, len(header), question.table.delimiter)
                write([*fitted, *values, error.removeprefix(f"line {number}: ")])
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _writer(file: TextIO, delimiter: str, end: str) -> Callable[[list[str]], object]:
    """Python before 3.11.9 leaves a field with CR alone without quotes, which all readers take for a row's end."""
    plain = csv.writer(file, delimiter=delimiter, lineterminator=end)
    quoted = csv.writer(file, delimiter=delimiter, lineterminator=end, quoting=csv.QUOTE_ALL)

    def write(row: list[str]) -> None:
        (quoted if any("\r" in field for field in row) else plain).writerow(row)

    return write


def _fitted(row: list[str], width: int, delimiter: str) -> list[str]:
    """As many fields as the header has; what is too much stays together in the last one."""
    if len(row) > width:
        return [*row[: width - 1], delimiter.join(row[width - 1 :])]
    return row + [""] * (width - len(row))


def _cells(question: Question, line: bytes) -> list[str]:
    """The values of the new columns, the last one an error."""
    nothing = [""] * (len(question.properties) or 1)
    result = read_result(line)
    assert result is not None
    if not result.is_good:
        return [*nothing, str((result.error or {}).get("message"))]
    text = str(result.response["body"]["choices"][0]["message"]["content"])
    cut = "cut at --max-tokens: raise it and add --retry" if result.is_cut else ""
    if question.schema is None:
        return [text, cut]
    try:
        value = json.loads(text)
    except ValueError:
        return [*nothing, cut or "the answer is no JSON"]
    if not question.properties:
        return [*nothing, cut] if cut else [_cell(value), ""]  # half a number is a number too
    return [*(_cell(value.get(name)) for name in question.properties), ""]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
