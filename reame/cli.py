"""The command line: every subcommand registers itself here; errors for people become one line.

Exit status: what the command returns; 1 after `reame: ...`, 2 when the command line itself is wrong, 130 after Ctrl-C.
When nobody reads standard output any more (`| head`), the end is quiet, and no failure.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import TYPE_CHECKING

import cyclopts
from cyclopts import CycloptsError, MissingArgumentError, UnusedCliTokensError

from reame import __version__
from reame.commands import archive, batch, cache, config, doctor, models, run, serve, warm
from reame.errors import ReameError

if TYPE_CHECKING:
    from collections.abc import Sequence

FAILED, MISUSED, INTERRUPTED = 1, 2, 130
UNWRITABLE = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Nobody reads any more, the disk is full, the terminal is gone."""

app = cyclopts.App(
    name="reame",
    help="An LLM inference daemon for CPUs that never computes the same thing twice.",
    version=f"reame {__version__}",
    backend="trio",
)
for command in (run, batch, serve, models, doctor, warm, cache, archive, config):
    command.register(app)


def main() -> None:
    """Entry point."""
    open_missing_streams()
    write_in_any_locale()
    sys.exit(status_of(sys.argv[1:]))


def status_of(words: Sequence[str]) -> int:
    """Run the command line `words`, say what went wrong, and return the exit status. A bug of ours propagates."""
    try:
        result = app(words, result_action="return_value", exit_on_error=False, print_error=False)
        sys.stdout.flush()  # a full disk must not look like success
    except CycloptsError as error:
        command = " ".join(("reame", *(error.command_chain or ())))
        print(f"reame: {misuse(error)}\nsee {command} --help", file=sys.stderr)
        return MISUSED
    except BaseException as error:
        return _status_after(error)
    return result if isinstance(result, int) else 0


def _status_after(error: BaseException) -> int:
    """Raises `error` again when it is nothing that a person can mend."""
    causes = leaves(error)
    if any(isinstance(cause, KeyboardInterrupt) for cause in causes):
        return INTERRUPTED
    if all(isinstance(cause, ReameError) for cause in causes):
        for cause in causes:
            print(f"reame: {cause}", file=sys.stderr)
        return FAILED
    unwritable = {cause.errno or 0 for cause in causes if isinstance(cause, OSError)} & UNWRITABLE
    if len(unwritable) != 1 or not all(isinstance(cause, OSError) for cause in causes):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end
    if unwritable == {errno.EPIPE}:
        return 0
    print(f"reame: the output cannot be written: {os.strerror(unwritable.pop())}", file=sys.stderr)
    return FAILED


def open_missing_streams() -> None:
    """Where this process was started without a standard stream (`>&-`), what goes there goes nowhere.

    Its number is taken too: else the next file that is opened would get it, and with it what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))


def write_in_any_locale() -> None:
    """A character that the terminal's encoding lacks, such as a model's dash, becomes a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def misuse(error: CycloptsError) -> str:
    """One line that says what is wrong with the command line."""
    if type(error) is MissingArgumentError and error.argument is not None:
        return f"{error.keyword} needs a value" if error.keyword else f"{error.argument.name} is missing"
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return f"too many arguments: {' '.join(error.unused_tokens)}"
    text = " ".join(str(error).split()).removesuffix(" Did you mean -?").removesuffix(".")
    return text[:1].lower() + text[1:]


def leaves(error: BaseException) -> list[BaseException]:
    """The exceptions inside a tree of groups; the exception itself when it is no group."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for inner in error.exceptions for leaf in leaves(inner)]
