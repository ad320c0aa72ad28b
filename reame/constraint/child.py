"""The daemon's end of the child process that tries constraints out."""

from __future__ import annotations

import json
import logging
import select
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

from attrs import asdict

from reame.constraint.fault import ConstraintFault
from reame.constraint.trial import TOO_MUCH

if TYPE_CHECKING:
    from reame.core.constraint import Constraint

COMMAND = (sys.executable, "-P", "-m", "reame.constraint.trial")
PATIENCE_S = 20.0
"""Seconds on the clock; the child ends itself after one of processor time, which takes longer on a busy machine."""

log = logging.getLogger(__name__)


class TrialChild:
    """Starts with the first constraint, and again after one that was too much for it. One constraint at a time; any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def grammar(self, constraint: Constraint) -> str:
        """llguidance's text of it, which compiles within the limits. Raises ConstraintFault. Blocks, a second or so."""
        with self._lock:
            answer = self._ask(json.dumps(asdict(constraint)).encode() + b"\n")
        if answer is None:
            raise ConstraintFault(TOO_MUCH)
        if "grammar" not in answer:
            raise ConstraintFault(answer["fault"], tuple(answer["path"]), answer["keyword"])
        return str(answer["grammar"])

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, line: bytes) -> dict[str, Any] | None:
        """None when the child ended over it."""
        if self._process is not None and self._process.poll() is not None:
            self._end()  # killed while it was idle: not over this
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline() if _is_ready(process.stdout) else b""
        except BrokenPipeError:
            answer = b""
        if answer.endswith(b"\n"):
            return dict(json.loads(answer))
        self._end()
        return None

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            log.debug("the trial of a constraint ended with %s", self._process.returncode)
            self._process = None


def _is_ready(stream: IO[bytes]) -> bool:
    """Whether something comes within the child's time. By poll: select takes no descriptor above 1023."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(1e3 * PATIENCE_S))


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
