"""Who runs beside whom when the suite runs several tests at a time (pytest-xdist): a test marked `alone` runs while no
other does, as what it shows depends on how long steps take.

Two files, locked by whoever runs: `room` by all together or by one alone, and before it for a moment `door`, so that
nobody overtakes the one who waits for the room to be empty.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


RUN = "PYTEST_XDIST_TESTRUNUID"
"""In the environment of a worker, and of what it starts: the name of the run."""


@contextmanager
def turn(*, alone: bool) -> Iterator[None]:
    """Until it is left, nobody else is inside, or nobody who wants to be alone. Nothing to wait for without workers."""
    run = os.environ.get(RUN)
    if not run:
        yield
        return
    names = [Path(tempfile.gettempdir(), f"reame-tests-{run}-{name}") for name in ("door", "room")]
    with names[0].open("w") as door, names[1].open("w") as room:
        fcntl.flock(door, fcntl.LOCK_EX)
        fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(door, fcntl.LOCK_UN)
        try:
            yield
        finally:
            fcntl.flock(room, fcntl.LOCK_UN)


@contextmanager
def unheard() -> Iterator[None]:
    """What is started until it is left does not hear of turns. A pytest inside a test would else wait for its own: for
    the room to be empty of the one that started it."""
    run = os.environ.pop(RUN, None)
    try:
        yield
    finally:
        if run is not None:
            os.environ[RUN] = run
