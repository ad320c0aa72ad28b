"""Lines from the keyboard, with readline's editing and a history for the session, in a thread of their own.

While a line is edited, Ctrl-C is a key like others, so that it can throw the line away: a thread inside readline cannot
be interrupted, and an abandoned one would eat the next line.
"""

from __future__ import annotations

import os
import sys
import termios
from contextlib import suppress
from typing import Literal, Protocol

import trio
from attrs import frozen

INTERRUPT = "\x03"
_BINDINGS = (r'"\C-c": "\C-e\C-v\C-c\C-m"', "set enable-bracketed-paste on")
"""Ctrl-C: to the end of the line, put itself there (readline shows it as ^C), and enter the line. A pasted text of
several lines is one message (Python switches that off)."""
_NO_MORE_PASTES = "\x1b[?2004l"
"""Ends the bracketed paste mode that readline begins with every line."""


@frozen
class Line:
    """What was typed, and how it ended: by Enter, Ctrl-C (the text is to be forgotten) or Ctrl-D on an empty line."""

    text: str
    end: Literal["enter", "ctrl-c", "ctrl-d"] = "enter"


class LineReader(Protocol):
    async def read(self, prompt: str) -> Line: ...


class Keyboard:
    """Reads from a terminal on standard input; `read` may be cancelled, but then it is the last one."""

    def __init__(self) -> None:
        self._binds = _bind_interrupt()

    async def read(self, prompt: str) -> Line:
        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        if self._binds:
            during = termios.tcgetattr(descriptor)
            during[6][termios.VINTR] = os.fpathconf(descriptor, "PC_VDISABLE").to_bytes(1)
            termios.tcsetattr(descriptor, termios.TCSADRAIN, during)
        try:
            text = await trio.to_thread.run_sync(input, prompt, abandon_on_cancel=True)
        except EOFError:
            return Line("", "ctrl-d")
        except trio.Cancelled:
            sys.stdout.write(f"{_NO_MORE_PASTES}\n")
            raise
        finally:
            with suppress(termios.error):  # the terminal may be gone
                termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        return Line(text.removesuffix(INTERRUPT), "ctrl-c" if text.endswith(INTERRUPT) else "enter")


def _bind_interrupt() -> bool:
    """Load readline, which `input` then uses. False when it is absent or libedit: Ctrl-C then stays a signal."""
    try:
        import readline
    except ImportError:
        return False
    if "libedit" in (readline.__doc__ or ""):
        return False
    for binding in _BINDINGS:
        readline.parse_and_bind(binding)
    return True
