"""What a person sees: answers on standard output; notes, and a line that comes and goes, on standard error."""

from __future__ import annotations

import os
import re
from typing import TextIO

import trio

TICK_S = 0.1
PATIENCE_S = 0.5
"""Before a wait is worth a word."""
FRAMES = "|/-\\"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""All but tab and line feed: a model must not move the cursor, or set the terminal's title."""


class Screen:
    """Writing blocks, on purpose: when the reader of a pipe stands still, so does the computation for it.

    BrokenPipeError when that reader is gone.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._held = ""
        self._is_plain = not out.isatty()
        self._shows_status = err.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._status = ""

    def answer(self, text: str) -> None:
        """A piece of an answer. Line feeds are kept back until something follows them: see `end_answer`."""
        text = self._held + (text if self._is_plain else _CONTROL.sub("", text))
        kept = text.rstrip("\n")
        self._held = text[len(kept) :]
        self._write(kept)

    def end_answer(self) -> None:
        """The answer ends with exactly one line feed."""
        self._held = ""
        self._write("\n")

    def say(self, line: str) -> None:
        """A line that is no answer, on standard output."""
        self._write(f"{line}\n")

    def note(self, line: str) -> None:
        """A line for the person, on standard error."""
        self.status("")
        print(line, file=self._err, flush=True)

    def status(self, text: str) -> None:
        """Show `text` in place of the status before; "" takes it away. Nothing when standard error is no terminal."""
        if self._shows_status and text != self._status:
            self._err.write(f"\r\x1b[K{text}")
            self._err.flush()
            self._status = text

    async def spin(self, what: str) -> None:
        """Show `what` with a sign of life and the seconds that it takes, until cancelled."""
        started = trio.current_time()
        try:
            await trio.sleep(PATIENCE_S)
            tick = 0
            while True:
                seconds = trio.current_time() - started
                self.status(f"{FRAMES[tick % len(FRAMES)]} {what}, {seconds:.0f} s")
                await trio.sleep(TICK_S)
                tick += 1
        finally:
            self.status("")

    def _write(self, text: str) -> None:
        if text:
            self.status("")
            self._out.write(text)
            self._out.flush()


def repaired(text: str) -> str:
    """`text` without the half characters that a terminal or a command line in another encoding can bring."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
