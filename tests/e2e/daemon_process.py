"""A real `reame serve` in a process of its own, with its own config; what it says on standard error can be waited for.

Waiting never polls a clock: a thread reads the log, and whoever waits for a line is woken by it. A daemon that ends, or
says nothing for `PATIENCE_S`, fails the wait with its last words.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Condition, Thread
from typing import TYPE_CHECKING, Any

import tomli_w
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REAME = Path(sys.executable).with_name("reame")
PATIENCE_S = 120.0
"""Seconds after which something that should have come counts as hanging; nothing is measured against it."""
Tables = dict[str, dict[str, object]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class DaemonProcess:
    """Started at once; ready after `wait_ready`. As a context it ends with SIGTERM, which must give 0 and a clean log,
    unless `wait_exit` has seen its end before.

    `tables` are those of the TOML file; the port is a free one if they name none. `environ` is added to an environment
    that has nothing of Reame's in it. `wrapper` is a command in front of the daemon's, which it must become; it
    gets the descriptors `pass_fds`.
    """

    def __init__(
        self,
        folder: Path,
        tables: Tables,
        environ: Mapping[str, str],
        *,
        wrapper: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.port = int(str(tables.get("server", {}).get("port") or free_port()))
        self.url = f"http://127.0.0.1:{self.port}"
        self.config = folder / f"reame-{self.port}.toml"
        server = tables.get("server", {}) | {"port": self.port}
        self.config.write_text(tomli_w.dumps(tables | {"server": server}), "utf-8")
        own = {name: value for name, value in os.environ.items() if not name.startswith("REAME_")}
        self.process = subprocess.Popen(
            [*wrapper, REAME, "serve", "--config", self.config],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
            env=own | dict(environ), text=True, encoding="utf-8", pass_fds=pass_fds,
        )  # fmt: skip
        self.lines: list[str] = []
        self._said = Condition()
        self._is_over = False
        self._reader = Thread(target=self._read, name="log reader", daemon=True)
        self._reader.start()

    def __enter__(self) -> DaemonProcess:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and self.process.returncode is None:
            self.send(signal.SIGTERM)
            assert self.wait_exit() == 0, self.log
            assert "Traceback" not in self.log, self.log
        elif self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()

    @property
    def log(self) -> str:
        with self._said:
            return "\n".join(self.lines)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_for(self, pattern: str, count: int = 1) -> str:
        """Until `count` lines match; the last of them."""
        return self._wait(lambda found: len(found) >= count, pattern)[count - 1]

    def wait_listening(self) -> None:
        self.wait_for(r"INFO listening on ")

    def wait_ready(self) -> DaemonProcess:
        self.wait_for(r"INFO ready: ")
        return self

    def wait_exit(self) -> int:
        """The exit status, once it has ended by itself and its log is read to the end."""
        status = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return status

    def requests(self, count: int) -> list[dict[str, str]]:
        """The fields of the first `count` request lines of the log, which are waited for."""
        lines = self._wait(lambda found: len(found) >= count, r"INFO request ")
        return [dict(re.findall(r"(\w+)=(\S+)", line)) for line in lines[:count]]

    def _wait(self, enough: Callable[[list[str]], bool], pattern: str) -> list[str]:
        def found() -> list[str]:
            return [line for line in self.lines if re.search(pattern, line)]

        with self._said:
            self._said.wait_for(lambda: self._is_over or enough(found()), PATIENCE_S)
            if not enough(found()):
                raise AssertionError(f"no line {pattern!r} in the log:\n" + "\n".join(self.lines))
            return found()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._said:
                    self.lines.append(line.rstrip("\n"))
                    self._said.notify_all()
        with self._said:
            self._is_over = True
            self._said.notify_all()


class Readings(dict[str, float]):
    """One look at /metrics: samples by `name` or `name{label="value"}` without the prefix `reame_`; absent is 0."""

    def __init__(self, text: str) -> None:
        super().__init__()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
                self[sample.name.removeprefix("reame_") + (f"{{{labels}}}" if labels else "")] = sample.value

    def __missing__(self, name: str) -> float:
        return 0.0

    def outcomes(self) -> dict[str, int]:
        """How many calls ended in each way."""
        found = {name: re.fullmatch(r'requests_total\{outcome="(\w+)"\}', name) for name in self}
        return {match[1]: int(self[name]) for name, match in found.items() if match}


def status_fields(pid: int) -> dict[str, Any]:
    """The numbers of /proc/PID/status (kB where it has a unit), and the number of open file descriptors as `fds`."""
    text = Path(f"/proc/{pid}/status").read_text("utf-8")
    fields = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+)(?: kB)?$", text, re.MULTILINE)}
    return fields | {"fds": len(os.listdir(f"/proc/{pid}/fd"))}
