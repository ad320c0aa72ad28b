"""What the service manager is told: systemd's notify protocol, one datagram a message (see sd_notify(3)).

Without a manager that listens every method does nothing. None of them waits or fails: a manager that does not read
must not hold up an answer.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import MutableMapping


class Supervisor:
    """Takes its address out of `environ`, so that child processes do not speak for this one.

    `watchdog_s`: how often at least the manager wants to hear `alive`, in seconds; None when it does not.
    """

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        name = environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + name[1:] if name.startswith("@") else name if name.startswith("/") else ""
        self.watchdog_s = _watchdog_seconds(environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", ""))
        self._is_ready = False
        self._is_stopping = False
        self._status = ""

    @property
    def listens(self) -> bool:
        return bool(self._address)

    def ready(self, status: str) -> None:
        """Requests are answered from now on. Said once, and not after `stopping`."""
        if not self._is_ready and not self._is_stopping:
            self._is_ready = True
            self._status = status
            self._send("READY=1", f"STATUS={status}")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; the same line again is not sent."""
        if text != self._status:
            self._status = text
            self._send(f"STATUS={text}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    def more_time(self, seconds: float) -> None:
        """The start or the end that is under way may take that long from now."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def reloading(self) -> None:
        """The configuration is read again; `reloaded` must follow."""
        if self._is_ready and not self._is_stopping:
            self._send("RELOADING=1", f"MONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def reloaded(self) -> None:
        if self._is_ready and not self._is_stopping:
            self._send("READY=1")

    def stopping(self, seconds: float) -> None:
        """The end has begun, and may take that long."""
        if not self._is_stopping:
            self._is_stopping = True
            self._send("STOPPING=1", f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def _send(self, *assignments: str) -> None:
        if not self._address:
            return
        message = "\n".join(" ".join(each.split("\n")) for each in assignments)
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as wire:
            wire.setblocking(False)
            wire.sendto(message.encode(), self._address)


def _watchdog_seconds(microseconds: str, pid: str) -> float | None:
    """None when there is no watchdog, or it is meant for another process."""
    if not microseconds.isdecimal() or int(microseconds) == 0 or pid not in ("", str(os.getpid())):
        return None
    return int(microseconds) / 1e6
