"""What set-up says: plain lines, one live line while something long runs, and refusals. All of it on standard error."""

from __future__ import annotations

import shutil
import sys
import time


class Refusal(Exception):
    """A reason why set-up cannot go on: one line that says what to do."""


def say(text: str) -> None:
    print(f"set-up: {text}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def time_left(seconds: float) -> str:
    return "less than a minute left" if seconds < 45 else f"about {max(1, round(seconds / 60))} min left"


class LiveLine:
    """A status that changes often: rewritten in place on a terminal, else printed at most every `interval` seconds."""

    def __init__(self, *, interval: float = 15.0) -> None:
        self.started = time.monotonic()
        self._interval = interval
        self._printed = self.started
        self._shown = ""
        self._terminal = sys.stderr.isatty()

    @property
    def elapsed(self) -> float:
        """Seconds since this line was made."""
        return time.monotonic() - self.started

    def show(self, text: str) -> None:
        minutes, seconds = divmod(int(self.elapsed), 60)
        line = f"[{minutes}:{seconds:02d}] {text}"
        if self._terminal and line != self._shown:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{f'set-up: {line}'[:width]}", end="", file=sys.stderr, flush=True)
            self._shown = line
        elif not self._terminal and time.monotonic() - self._printed >= self._interval:
            self._printed = time.monotonic()
            say(line)

    def clear(self) -> None:
        if self._terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
