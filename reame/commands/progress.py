"""How a pull looks to a person: a bar on a terminal, a line every ten per cent anywhere else. Always on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from attrs import define, field
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from reame.pull_file import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame import pull_file

LINE_STEP = 0.1  # of the whole
LINE_BYTES = 100_000_000  # between lines when the whole is not known


@define
class Bar:
    """Progress as one rich bar per file: share, bytes, rate, time left."""

    display: Progress
    _tasks: dict[str, TaskID] = field(factory=dict)
    _current: TaskID | None = None

    def begin(self, name: str, *, total: int | None, done: int) -> None:
        if name not in self._tasks:
            self._tasks[name] = self.display.add_task(name, total=total, completed=done)
        self._current = self._tasks[name]
        self.display.update(self._current, total=total, completed=done)

    def advance(self, count: int) -> None:
        if self._current is not None:
            self.display.advance(self._current, count)

    def say(self, line: str) -> None:
        self.display.console.print(line, highlight=False, markup=False)


@define
class Lines:
    """Progress for logs and pipes: a line at the beginning and at every tenth of the way."""

    stream: TextIO
    _name: str = ""
    _total: int | None = None
    _done: int = 0
    _start: int = 0
    _since: float = 0.0
    _next: float = 0.0

    def begin(self, name: str, *, total: int | None, done: int) -> None:
        self._name, self._total, self._done, self._start = name, total, done, done
        self._since = time.monotonic()
        step = self._step()
        self._next = (done // step + 1) * step
        size = bytes_text(total) if total else "size unknown"
        self.say(f"{name}: {size}" + (f", {bytes_text(done)} are here already" if done else ""))

    def advance(self, count: int) -> None:
        self._done += count
        if count and (self._done >= self._next or self._done == self._total):
            step = self._step()
            self._next = (self._done // step + 1) * step
            self.say(f"{self._name}: {self._status()}")

    def say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)

    def _step(self) -> float:
        return max(self._total * LINE_STEP, 1.0) if self._total else LINE_BYTES

    def _status(self) -> str:
        rate = (self._done - self._start) / max(time.monotonic() - self._since, 1e-3)
        if not self._total:
            return f"{bytes_text(self._done)}, {bytes_text(rate)}/s"
        left = max(self._total - self._done, 0) / max(rate, 1.0)
        share = f"{min(self._done / self._total, 1.0):.0%} of {bytes_text(self._total)}, {bytes_text(rate)}/s"
        return f"{share}, {left:.0f} s left" if self._done < self._total else share


@contextmanager
def shown_on(stream: TextIO | None = None) -> Iterator[pull_file.Progress]:
    """Progress for this stream (None: stderr): the bar when it is a terminal, else lines."""
    stream = sys.stderr if stream is None else stream
    if not stream.isatty():
        yield Lines(stream)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), TimeRemainingColumn(), console=Console(file=stream)) as display:
        yield Bar(display)
