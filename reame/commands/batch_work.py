"""What `reame batch` does: input and output opened and compared, somebody to compute found, then record by record; at
the end the output's order, a table if one was given, and the account."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import define, frozen

from reame.batch.account import Account
from reame.batch.journal import Journal
from reame.batch.plan import Plan
from reame.batch.scratch import no_room, told
from reame.commands.batch_progress import shown
from reame.commands.batch_table import as_lines, write_table
from reame.commands.batch_where import find, here, through
from reame.commands.screen import Screen
from reame.config_load import load_config
from reame.config_rules import printable
from reame.errors import ConfigError
from reame.runtime.batch_run import BatchRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.commands.batch_question import Question
    from reame.config_load import Loaded
    from reame.runtime.batch_run import Solver

PARTLY = 3
"""The exit status when everything was tried and some lines failed."""


@frozen(kw_only=True)
class Wanted:
    """The command line of `reame batch`. Either an `input` or a `question` is there."""

    input: Path | None
    question: Question | None
    output: Path
    ordered: bool
    retry: bool
    price: float | None
    model: str
    url: str
    key_file: Path | None
    config: Path | None
    sets: tuple[str, ...]


async def run_batch(wanted: Wanted) -> int:
    """The exit status. Raises ReameError for all that keeps it from the end; what is done by then stays."""
    loaded = load_config(wanted.config, sets=wanted.sets)
    if wanted.price is not None and not 0 <= wanted.price < float("inf"):
        raise ConfigError("--price is a number of at least 0")
    if wanted.model and (wanted.url or wanted.key_file):
        raise ConfigError("--model loads a model here, --url and --key-file are for a daemon: leave one out")
    with ExitStack() as stack, told():
        job = await trio.to_thread.run_sync(partial(_prepare, wanted, stack))
        status = await _do(job, wanted, loaded) if job.account.lines > job.account.before else 0
        if not status:
            await trio.to_thread.run_sync(partial(_finish, wanted, job))
    for line in job.account.summary(wanted.price):
        print(line)
    if status:
        left = f"broken off with {job.num_left:,} lines to do"
        print(f"reame: {left}: the same command goes on from here", file=sys.stderr)
        return status
    return PARTLY if job.account.failed + job.account.failed_before else 0


@define
class Job:
    """Input and output of a batch, open. `journal_path` is that of the lines, also when a table is made of them: then
    `question` has the table as it was read."""

    question: Question | None
    plan: Plan
    journal: Journal
    journal_path: Path
    account: Account

    @property
    def num_left(self) -> int:
        return self.account.lines - self.account.before - self.account.done

    async def run(self, solver: Solver) -> None:
        """Raises ConfigError when the results, or what it keeps of the lines, cannot be written."""
        self.account.began = trio.current_time()
        full: BaseException | None = None
        with shown(self.account, sys.stderr) as show:
            try:
                await BatchRun(self.plan, self.journal, solver, self.account, show.update).run()
            except* (OSError, sqlite3.Error) as errors:
                full = _first(errors)
        if full is not None:
            raise no_room(full) if isinstance(full, sqlite3.Error) else self.unwritable(full)

    def unwritable(self, error: BaseException) -> ConfigError:
        return unwritable(self.journal_path, error, f" with {self.num_left:,} lines to do")


def unwritable(path: Path, error: BaseException, state: str = "") -> ConfigError:
    reason = getattr(error, "strerror", None) or type(error).__name__
    return ConfigError(
        f"{printable(path)}: cannot be written ({reason.lower()}){state}: make room, and the same command goes on from "
        "here"
    )


def _prepare(wanted: Wanted, stack: ExitStack) -> Job:
    """Input and output, opened and compared, to be closed by the `stack`."""
    path, output, question = wanted.input, wanted.output, wanted.question
    if not output.name:
        raise ConfigError("--output needs the name of a file")
    known: Mapping[int, str] = {}
    if question is not None:
        lines = stack.enter_context(as_lines(question))
        path, known, question = lines.path, lines.faults, lines.question
        output = output.with_name(f"{output.name}.jsonl")
        if wanted.output.exists() and not output.exists():
            raise ConfigError(f"{printable(wanted.output)} is there already, and not from here: name another output")
    assert path is not None
    plan = Plan(path, is_table=question is not None)
    stack.callback(plan.close)
    if output.exists() and output.samefile(path):
        raise ConfigError("the output is the input: name another file with -o")
    journal = Journal(output)
    stack.callback(journal.close)
    plan.scan(known)
    try:
        counts = plan.resume(journal, retry=wanted.retry)
    except OSError as error:
        raise unwritable(output, error) from None
    account = Account(counts.lines, counts.done, 0.0, counts.failed, cut_fails=question is not None)
    return Job(question, plan, journal, output, account)


async def _do(job: Job, wanted: Wanted, loaded: Loaded) -> int:
    screen = Screen(sys.stdout, sys.stderr)
    remote = None if wanted.model else await find(loaded.config, wanted.url, wanted.key_file)
    if remote is not None:
        return await through(remote, screen, job.run)
    return await here(loaded, wanted.model, screen, job.run)


def _finish(wanted: Wanted, job: Job) -> None:
    """Everything has a result: put them into order, or into a table."""
    try:
        if job.question is not None:
            places = job.plan.in_order(job.journal)
            rows = ((number, job.journal.read(start, size)) for number, start, size in places)
            write_table(job.question, wanted.output, rows)
        elif wanted.ordered:
            job.plan.sort(job.journal)
    except OSError as error:
        raise job.unwritable(error) from None


def _first(errors: BaseExceptionGroup) -> BaseException:
    inner = errors.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
