"""A service manager, as far as a daemon sees one: it is told how things are, and has sockets open already."""

from __future__ import annotations

import socket
from threading import Condition, Thread
from typing import TYPE_CHECKING

from daemon_process import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class NotifySocket:
    """Keeps what was said, in order; `wait` is woken by it. Close it as a context."""

    def __init__(self, path: Path) -> None:
        self.environ = {"NOTIFY_SOCKET": str(path)}
        self.messages: list[dict[str, str]] = []
        self._said = Condition()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._path = str(path)
        self._reader = Thread(target=self._read, name="notify reader", daemon=True)
        self._reader.start()

    def __enter__(self) -> NotifySocket:
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
            own.sendto(b"", self._path)
        self._reader.join(PATIENCE_S)
        self._socket.close()

    def wait(self, holds: Callable[[list[dict[str, str]]], bool]) -> list[dict[str, str]]:
        """Until `holds` is true of all messages so far; these."""
        with self._said:
            assert self._said.wait_for(lambda: holds(self.messages), PATIENCE_S), self.messages
            return list(self.messages)

    def wait_for(self, key: str, value: str | None = None, *, after: int = 0) -> int:
        """Until a message behind the first `after` says so; its number, counted from 1."""

        def found(messages: list[dict[str, str]]) -> list[int]:
            return [
                number
                for number, each in enumerate(messages, 1)
                if number > after and key in each and value in (None, each[key])
            ]

        return found(self.wait(lambda messages: bool(found(messages))))[0]

    def _read(self) -> None:
        while message := self._socket.recv(1 << 16):
            with self._said:
                self.messages.append(dict(line.split("=", 1) for line in message.decode().splitlines()))
                self._said.notify_all()


def handing_over(listening: socket.socket, *more: socket.socket) -> tuple[list[str], tuple[int, ...]]:
    """The wrapper and the descriptors with which a daemon finds these sockets as systemd would hand them over."""
    descriptors = [each.fileno() for each in (listening, *more)]
    moves = " ".join(f"{number}<&{fd}" for number, fd in enumerate(descriptors, 3))
    script = f'exec {moves}; LISTEN_PID=$$ LISTEN_FDS={len(descriptors)} exec "$@"'
    return ["bash", "-c", script, "-"], tuple(descriptors)
