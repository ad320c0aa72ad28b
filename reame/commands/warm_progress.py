"""How far a prompt is: a bar that goes away on a terminal, a line at every tenth of the way in a log or a pipe."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from attrs import define
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from collections.abc import Iterator

STEP = 0.1


class Show(Protocol):
    def progress(self, done: int, total: int) -> None:
        """So many of the tokens are computed."""

    def say(self, line: str) -> None: ...


@define
class _Bar:
    display: Progress
    task: TaskID

    def progress(self, done: int, total: int) -> None:
        self.display.update(self.task, completed=done, total=total)

    def say(self, line: str) -> None:
        self.display.console.print(line, highlight=False, markup=False)


@define
class _Lines:
    """Neither the beginning nor the end is told: the line about the result follows."""

    name: str
    stream: TextIO
    _next: float = STEP

    def progress(self, done: int, total: int) -> None:
        if self._next * total <= done < total - 1:
            self._next = STEP * (int(done / total / STEP) + 1)
            self.say(f"{self.name}: {done:,} of {total:,} tokens")

    def say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


@contextmanager
def shown(name: str, stream: TextIO) -> Iterator[Show]:
    """Shows the progress of the file `name` while the block runs."""
    if not stream.isatty():
        yield _Lines(name, stream)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("tokens"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(file=stream), transient=True) as display:
        yield _Bar(display, display.add_task(escape(name), total=None))
