"""The chat as a person has it: the real model, a real terminal, real keys."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from attrs import define

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.model

PROMPT = ">>> "
LONGEST_S = 60  # without a byte: then something is stuck
ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
)
"""Makes the terminal that of the session, so that its Ctrl-C reaches the process."""


@define
class Terminal:
    """A pseudo-terminal and the process on it. `screen`: all that came from it and has not been read by `until`."""

    process: subprocess.Popen[bytes]
    descriptor: int
    screen: str = ""

    def type(self, keys: str) -> None:
        os.write(self.descriptor, keys.encode())

    def until(self, mark: str) -> str:
        """What appears up to and with `mark`."""
        while mark not in self.screen:
            more = self._more()
            assert more, f"{mark!r} never came after {self.screen!r}"
            self.screen += more
        before, self.screen = self.screen.split(mark, 1)
        return before + mark

    def say(self, line: str) -> str:
        """Type a line; what appears between it and the next prompt."""
        self.type(f"{line}\r")
        self.until(line)
        return self.until(PROMPT).removesuffix(PROMPT)

    def end(self) -> tuple[int, str]:
        """The exit status, and all the rest."""
        while more := self._more():
            self.screen += more
        return self.process.wait(timeout=LONGEST_S), self.screen

    def modes(self) -> tuple[int, bytes]:
        """How the terminal is set: its local flags, and the key that interrupts."""
        attributes = termios.tcgetattr(self.descriptor)
        return attributes[3], attributes[6][termios.VINTR]

    def _more(self) -> str:
        """ "" at the end."""
        ready, _, _ = select.select([self.descriptor], [], [], LONGEST_S)
        assert ready, f"nothing more comes after {self.screen!r}"
        try:
            return os.read(self.descriptor, 4096).decode(errors="replace")
        except OSError:  # Linux says EIO when nobody holds the other end any more
            return ""


@contextmanager
def chatting(model: Path, cwd: Path, *options: str) -> Iterator[Terminal]:
    words = [sys.executable, "-m", "reame", "run", str(model), "--context", "512", "--temperature", "0", *options]
    environment = {**os.environ, "TERM": "xterm", "INPUTRC": os.devnull}
    environment.pop("REAME_CONFIG", None)
    descriptor, other_end = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", ON_TERMINAL, *words],
        stdin=other_end, stdout=other_end, stderr=other_end, start_new_session=True, cwd=cwd, env=environment,
    ) as process:  # fmt: skip
        os.close(other_end)
        try:
            yield Terminal(process, descriptor)
        finally:
            process.kill()
            os.close(descriptor)


def test_a_conversation_with_keys(model_path: Path, tmp_path: Path) -> None:
    with chatting(model_path, tmp_path, "--max-tokens", "8", "--stats", "--set", "memory.enabled=false") as terminal:
        before = terminal.modes()
        greeting = terminal.until(PROMPT)
        assert "loading" in greeting
        assert f"{model_path.stem}, 512 tokens of context." in greeting
        first = terminal.say("Say hello.")
        assert "(prompt: " in first
        assert " and " not in first.partition("(prompt: ")[2]
        assert " cached, " in terminal.say("And now good bye.")
        assert "/clear" in terminal.say("/help")
        terminal.type("\x1b[200~one\rtwo\x1b[201~\r")  # a paste of two lines is one message
        assert "(prompt: " in terminal.until(PROMPT)
        terminal.type("never sent\x03")
        assert "(prompt: " not in terminal.until(PROMPT)
        terminal.type("/by\x01\x05e\r")  # readline edits: to the beginning, to the end
        assert terminal.end()[0] == 0
        assert terminal.modes() == before


def test_ctrl_c_stops_an_answer_and_then_ctrl_d_ends(model_path: Path, tmp_path: Path) -> None:
    with chatting(model_path, tmp_path, "--set", "sampling.max_tokens=400") as terminal:
        terminal.until(PROMPT)
        terminal.type("Tell me a very long story.\r")
        terminal.until("story.\r\n")
        terminal.until(" the ")
        terminal.type("\x03")
        assert "(stopped)" in terminal.until(PROMPT)
        terminal.type("\x04")
        assert terminal.end()[0] == 0


def test_ctrl_c_while_it_loads(model_path: Path, tmp_path: Path) -> None:
    with chatting(model_path, tmp_path) as terminal:
        terminal.until("loading")
        terminal.type("\x03")
        status, rest = terminal.end()
        assert status == 130
        assert "reame:" not in rest
        assert "Traceback" not in rest


def test_sigterm_at_the_prompt_leaves_the_terminal_as_it_was(model_path: Path, tmp_path: Path) -> None:
    with chatting(model_path, tmp_path) as terminal:
        before = terminal.modes()
        terminal.until(PROMPT)
        terminal.process.send_signal(signal.SIGTERM)
        status, rest = terminal.end()
        assert status == 143
        assert terminal.modes() == before
        assert "Traceback" not in rest
