"""How far a batch is: a bar on a terminal, a line at every twentieth of the way in a log or a pipe."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TextIO

from attrs import define
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from reame.batch.account import time_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.batch.account import Account

STEP = 0.05


class Show(Protocol):
    def update(self) -> None:
        """The account has changed."""

    def say(self, line: str) -> None: ...


@define
class _Bar:
    account: Account
    display: Progress
    task: TaskID

    def update(self) -> None:
        self.display.update(self.task, completed=self.account.before + self.account.done, pace=pace(self.account))

    def say(self, line: str) -> None:
        self.display.console.print(line, highlight=False, markup=False)


@define
class _Lines:
    account: Account
    stream: TextIO
    next: float = STEP

    def update(self) -> None:
        account = self.account
        share = account.done / max(1, account.lines - account.before)
        if self.next <= share < 1:
            self.next = STEP * (int(share / STEP) + 1)
            left = account.seconds_left
            end = "" if left is None else f", {time_text(left)} left"
            self.say(f"{account.before + account.done:,} of {account.lines:,} lines, {pace(account)}{end}")

    def say(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


def pace(account: Account) -> str:
    """Tokens of answers a second since the beginning, and the share of all tokens that was not computed."""
    return f"{account.answer_tokens / account.seconds:,.0f} tok/s, {account.share_remembered:.0%} not computed"


@contextmanager
def shown(account: Account, stream: TextIO) -> Iterator[Show]:
    """Shows the progress while the block runs."""
    if not stream.isatty():
        yield _Lines(account, stream)
        return
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[pace]}"), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=stream), transient=True) as display:
        task = display.add_task("", total=account.lines, completed=account.before, pace="")
        yield _Bar(account, display, task)
