"""The sides of a comparison: how each server is started, rested while the other one runs, and stopped."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import psutil
import tomli_w
from attrs import define, frozen

from bench.client import Address
from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
from contextlib import suppress

START_S = 300.0
"""Longest wait for a server to be ready; a first start of Reame tries the model in a canary process before."""
SETTLE_S = 5.0
STOP_S = 20.0
PR_SET_PDEATHSIG = 1  # linux/prctl.h


@frozen(kw_only=True)
class Setup:
    """What every side gets alike. `context`: tokens of one request; `cells`: KV cache for all `users` together."""

    model: Path
    threads: int
    users: int = 1
    context: int = 4096
    cells: int = 8192
    kv_type: str = "q8_0"
    draft: Path | None = None
    """A smaller model, for the sides with `DRAFT` among their arguments."""


DRAFT = "{draft}"
"""In an argument: the path of the draft model."""


@frozen
class Side:
    """One column of a table. `args` and `env` are added to the command and the environment of its kind. `keys`: whoever
    asks sends one of them, and has a memory of his own; none: nobody does."""

    label: str
    kind: Literal["reame", "llama-server", "llama-bench", "url"]
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()


REAME = Side("Reame", "reame")
LLAMA_SERVER = Side("llama-server", "llama-server")
LLAMA_BENCH = Side("llama-bench", "llama-bench")
NO_DRAFTS = Side("Reame, drafts off", "reame", ("--set", "speculation.enabled=false"))
NO_MEMORY = Side("Reame, neither drafts nor disk", "reame", (*NO_DRAFTS.args, "--set", "memory.enabled=false"))
SPECULATING = Side("llama-server --spec-default", "llama-server", ("--spec-default",))


def arguments(side: Side, setup: Setup) -> list[str]:
    """Those of the side alone."""
    return [word.replace(DRAFT, str(setup.draft)) for word in side.args]


def llama_server_command(binaries: Path, setup: Setup, side: Side, port: int) -> list[str]:
    """As its documentation advises for chat on a CPU: flash attention, one KV pool for all slots, continuous batching.

    Warm-up and continuous batching are on by default. The cache of old prompts in RAM is off where a scenario has one
    slot: no prompt comes twice, so it could only cost copies; with several slots it also clears idle ones, and stays.
    """
    cache = ["--cache-ram", "0"] if setup.users == 1 else []
    return [
        *(str(binaries / "llama-server"), "--model", str(setup.model), "--port", str(port), "--offline", "--no-ui"),
        *("--threads", str(setup.threads), "--ctx-size", str(setup.cells), "--parallel", str(setup.users)),
        *("--kv-unified", "--flash-attn", "on", "--cache-type-k", setup.kv_type, "--cache-type-v", setup.kv_type),
        *cache,
        *arguments(side, setup),
    ]


def reame_config(setup: Setup, port: int) -> dict[str, dict[str, object]]:
    """What Reame's TOML says; all else is left at its defaults, the same in every scenario."""
    return {
        "model": {"path": str(setup.model)},
        "engine": {
            "threads": setup.threads,
            "context": setup.context,
            "cells": setup.cells,
            "kv_type": setup.kv_type,
        },
        "server": {"port": port},
    }


@define(eq=False)
class Server:
    """A running server of one side. Rests (SIGSTOP) from the start: nobody is another one's noise."""

    side: Side
    port: int
    command: tuple[str, ...]
    scratch: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> Path:
        return self.scratch / "log"

    @property
    def address(self) -> Address:
        return Address(port=self.port, key=next(iter(self.side.keys), ""))

    @property
    def cpu_s(self) -> float | None:
        """Processor seconds that it and what it started have used."""
        own = psutil.Process(self.process.pid)
        with suppress(psutil.NoSuchProcess):
            return sum(sum(process.cpu_times()[:2]) for process in (own, *own.children(recursive=True)))
        return sum(own.cpu_times()[:2])

    def restart(self) -> None:
        """Stop it in order and start it again, with what it left on disk; it runs when this returns."""
        self.stop()
        self.process = _spawn(self.command, self.side.env, self.scratch, self.log)
        _wait_until_ready(self)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def settle(self) -> None:
        """Until it has nothing left to do, at most `SETTLE_S`: what it does behind an answer's back, such as writing to
        disk, would else fall into its next run."""
        process, deadline = psutil.Process(self.process.pid), time.monotonic() + SETTLE_S
        before = -1.0
        while time.monotonic() < deadline and (now := sum(process.cpu_times()[:2])) > before + 0.01:
            before = now
            time.sleep(0.25)

    def rest(self) -> None:
        """Raises BenchError, with the end of its log, when the server has ended by itself."""
        if self.process.poll() is not None:
            raise BenchError(f"{self.side.label} ended with status {self.process.returncode}: {last_words(self.log)}")
        self._signal(signal.SIGSTOP)

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after `STOP_S`; returns when it has ended."""
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        """To the whole process group, which holds the server and what it started; nothing if all have ended."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def start(side: Side, setup: Setup, *, binaries: Path, scratch: Path) -> Server:
    """Start the server of `side`, wait until its /health answers 200, and let it rest.

    `scratch`: an empty directory for its log, its configuration and whatever it keeps on disk (nothing is inherited
    from another run). Raises BenchError, with the end of the server's log, when it does not become ready.
    """
    port = free_port()
    if side.kind == "reame":
        config = reame_config(setup, port)
        if side.keys:
            config["server"]["api_keys_file"] = str(_key_file(scratch, side.keys))
        (scratch / "reame.toml").write_text(tomli_w.dumps(config))
        command = [str(Path(sys.executable).with_name("reame")), "serve", "--config", str(scratch / "reame.toml")]
        command += arguments(side, setup)
    else:
        command = llama_server_command(binaries, setup, side, port)
    process = _spawn(command, side.env, scratch, scratch / "log")
    server = Server(side, port, tuple(command), scratch, process)
    try:
        _wait_until_ready(server)
    except BaseException:
        server.stop()
        raise
    server.rest()
    return server


def _key_file(scratch: Path, keys: Sequence[str]) -> Path:
    path = scratch / "keys"
    path.touch(mode=0o600)
    path.write_text("\n".join(keys) + "\n")
    return path


def _spawn(
    command: Sequence[str], extra: Sequence[tuple[str, str]], scratch: Path, log: Path
) -> subprocess.Popen[bytes]:
    env: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("REAME_", "LLAMA_ARG_"))},
        **{f"XDG_{kind}_HOME": str(scratch / kind.lower()) for kind in ("CACHE", "STATE", "DATA")},
        **dict(extra),
    }
    try:
        with log.open("ab") as out:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=env,
                process_group=0,
                preexec_fn=_die_with_the_harness,
            )
    except OSError as error:
        raise BenchError(f"cannot start {command[0]}: {error.strerror}") from error


def _die_with_the_harness() -> None:
    """In the new process: a harness killed by SIGKILL would leave a stopped server behind for ever."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _wait_until_ready(server: Server) -> None:
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        if server.process.poll() is not None:
            break
        if _health(server.port) == 200:
            return
        time.sleep(0.1)
    raise BenchError(f"{server.side.label} did not become ready: {last_words(server.log)}")


def _health(port: int) -> int:
    """The status of GET /health; 0 while nothing listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def last_words(log: Path, lines: int = 5) -> str:
    text = log.read_text(errors="replace").strip().splitlines()
    return " | ".join(text[-lines:]) or "it printed nothing"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
