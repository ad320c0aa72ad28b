"""The command line: every subcommand registers itself here; errors for people become one line."""

from __future__ import annotations

import sys

import cyclopts

from reame import __version__
from reame.commands import config, models, serve
from reame.errors import ReameError

EXIT_FAILED, EXIT_INTERRUPTED = 1, 130

app = cyclopts.App(
    name="reame",
    help="An LLM inference daemon for CPUs that never computes the same thing twice.",
    version=f"reame {__version__}",
    backend="trio",
)
for command in (serve, models, config):
    command.register(app)


def main() -> None:
    """Entry point: the exit status is what the command returns, 1 after a `reame: ...` line, 130 after Ctrl-C."""
    try:
        status = app()
    except* ReameError as group:
        for error in leaves(group):
            print(f"reame: {error}", file=sys.stderr)
        sys.exit(EXIT_FAILED)
    except* KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)
    sys.exit(status)


def leaves(group: BaseExceptionGroup[BaseException]) -> list[BaseException]:
    """The exceptions inside a tree of groups."""
    return [
        leaf
        for error in group.exceptions
        for leaf in (leaves(error) if isinstance(error, BaseExceptionGroup) else [error])
    ]
