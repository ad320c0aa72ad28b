"""How the doctor's minute looks: a bar on a terminal, a line every fifth of the way anywhere else. On stderr."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_STEP = 0.2


@contextmanager
def shown_on(stream: TextIO) -> Iterator[Callable[[float, str], None]]:
    """A function of the share that is done, 0 to 1, and what is being done; any thread may call it."""
    if not stream.isatty():
        yield _lines(stream)
        return
    columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(file=stream), transient=True) as display:
        task = display.add_task("", total=1.0)

        def update(done: float, doing: str) -> None:
            display.update(task, completed=done, description=doing)

        yield update


def _lines(stream: TextIO) -> Callable[[float, str], None]:
    upcoming = 0.0

    def say(done: float, doing: str) -> None:
        nonlocal upcoming
        if done >= upcoming and doing:
            upcoming = (done // _STEP + 1) * _STEP
            print(f"{done:4.0%} {doing}", file=stream, flush=True)

    return say
