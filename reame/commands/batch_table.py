"""A table as a batch: each row becomes a line of an input, each result new columns of its row.

The input is a file that is gone with the process; what lasts are the results, in a file beside the table:
`OUTPUT.jsonl`. Bound: one row in memory.
"""

from __future__ import annotations

import csv
import json
import os
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from attrs import frozen

from reame.batch.result import read_result
from reame.batch.scratch import no_room
from reame.commands.batch_question import ANSWER, new_columns, request_of
from reame.commands.batch_rows import delimiter, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from reame.commands.batch_question import Question


@frozen(kw_only=True)
class Lines:
    """The input made of a table, and what is wrong with rows, by the number of their line in it."""

    path: Path
    faults: Mapping[int, str]


@contextmanager
def as_lines(question: Question) -> Iterator[Lines]:
    """The table as an input, while the block runs."""
    faults: dict[int, str] = {}
    with ExitStack() as stack:
        try:
            file = stack.enter_context(tempfile.NamedTemporaryFile("wb", prefix="reame-", suffix=".jsonl", buffering=0))
        except OSError as error:
            raise no_room(error) from None
        with rows(question.table) as found:
            header = next(found)
            for number, row in enumerate(found, 1):
                if len(row) != len(header):
                    faults[number] = f"the row's fields are {len(row)}, the header's {len(header)}: see its quotes"
                line = json.dumps(request_of(question, number, header, row), ensure_ascii=False).encode() + b"\n"
                _write(file, line)
        yield Lines(path=Path(file.name), faults=faults)


def _write(file: IO[bytes], line: bytes) -> None:
    try:
        done = 0
        while done < len(line):
            done += file.write(line[done:])
    except OSError as error:
        raise no_room(error) from None


def write_table(question: Question, output: Path, results: Iterable[tuple[int, bytes]]) -> None:
    """The table with its new columns. `results` are (number of the row, line of the output), in order, one for each."""
    temporary = output.with_name(f"{output.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="") as file, rows(question.table) as found:
            header = next(found)
            new = new_columns(question, header)
            writer = csv.writer(file, delimiter=delimiter(question.table), lineterminator="\n")
            writer.writerow([*header, *new])
            for row, (number, line) in zip(found, results, strict=True):
                *values, error = _cells(question, new[:-1], line)
                padded = [*row, *[""] * (len(header) - len(row))]
                writer.writerow([*padded, *values, error.removeprefix(f"line {number}: ")])
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
