"""A daemon under a service manager: it says how it is, takes open sockets over, and reads its keys again."""

from __future__ import annotations

import os
import pty
import signal
import socket
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import tomli_w
import trio
from daemon_process import DaemonProcess
from manager import NotifySocket, handing_over
from streams import streaming
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, health, until_idle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from daemon_process import Tables

ENGINE: dict[str, object] = {"slots": 2, "context": 512}
STORY = ask("Once upon a time", 400, logit_bias=ENDLESS)


class Box:
    """A folder, and daemons in it."""

    def __init__(self, folder: Path, model: Path, cache: Path) -> None:
        self.folder = folder
        self.tables: Tables = {
            "model": {"path": str(model)},
            "engine": ENGINE,
            "memory": {"path": str(folder / "memory"), "answers": False},
        }
        self._environ = {"REAME_CACHE": str(cache)}

    def start(
        self,
        environ: Mapping[str, str] | None = None,
        *,
        wrapper: Sequence[str] = (),
        pass_fds: Sequence[int] = (),
        **tables: dict[str, object],
    ) -> DaemonProcess:
        environ = self._environ | dict(environ or {})
        return DaemonProcess(self.folder, self.tables | tables, environ, wrapper=wrapper, pass_fds=pass_fds)


@pytest.fixture
def box(tmp_path: Path, model_path: Path, cache: Path) -> Box:
    return Box(tmp_path, model_path, cache)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[NotifySocket]:
    with NotifySocket(tmp_path / "notify") as opened:
        yield opened


async def test_what_a_service_manager_is_told(box: Box, manager: NotifySocket) -> None:
    """From the start over a reload to the end, with the watchdog fed; and children do not speak in its name."""
    environ = manager.environ | {"WATCHDOG_USEC": "150000"}
    with box.start(environ) as daemon:
        ready = manager.wait_for("READY")
        async with connect(daemon) as client:
            assert (await health(client))["status"] == "ok", "READY=1 was not said too early"
            fed = manager.wait_for("WATCHDOG", "1", after=ready)
            manager.wait_for("WATCHDOG", "1", after=fed)
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            daemon.send(signal.SIGHUP)
            again = manager.wait_for("RELOADING", "1", after=ready)
            assert int(manager.messages[again - 1]["MONOTONIC_USEC"]) >= before
            manager.wait_for("READY", after=again)
            async with streaming(client, COMPLETIONS, STORY) as running:
                assert await running.piece()
                busy = f"serving {(await health(client))['model']}: 1 of 2 slots busy, 0 waiting"
                await trio.to_thread.run_sync(manager.wait_for, "STATUS", busy)
            daemon.send(signal.SIGTERM)
            assert await trio.to_thread.run_sync(daemon.wait_exit) == 0
    said = manager.messages
    assert [each for each in said[: ready - 1] if "READY" in each or "STOPPING" in each] == []
    loading = [each["STATUS"] for each in said[: ready - 1] if "STATUS" in each]
    assert loading
    assert all(status.startswith("loading") for status in loading)
    assert any("EXTEND_TIMEOUT_USEC" in each for each in said[: ready - 1]), "a slow start is not a hanging one"
    stopping = [each for each in said if "STOPPING" in each]
    assert [(each["STOPPING"], each["EXTEND_TIMEOUT_USEC"]) for each in stopping] == [("1", "90000000")]


async def test_a_hanging_engine_is_unhealthy_and_does_not_feed_the_watchdog(
    box: Box, manager: NotifySocket, tmp_path: Path
) -> None:
    """Its steps are made to wait for a file: the HTTP side answers all the time, and says what is the matter."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    code = f"""
import reame.engine.step as step
run = step.StepRunner.run
def held(self, batch):
    if any(len(part.tokens) == 7 for part in batch.slices):
        open({str(gate)!r}).read()
    return run(self, batch)
step.StepRunner.run = held
"""
    (tmp_path / "sitecustomize.py").write_text(code)
    environ = manager.environ | {"WATCHDOG_USEC": "60000", "PYTHONPATH": str(tmp_path)}
    with box.start(environ, scheduler={"stall_s": 0.3}) as daemon:
        async with connect(daemon.wait_ready()) as client, trio.open_nursery() as nursery:
            assert (await answer(client, COMPLETIONS, ask([81] * 5, 2)))["choices"]
            nursery.start_soon(answer, client, COMPLETIONS, ask([82] * 7, 2))
            response = await client.get("/health")
            while response.status_code == 200:
                response = await client.get("/health")
            body = response.json()
            assert (response.status_code, body["status"]) == (503, "stalled")
            assert "has not finished a step" in body["detail"]
            so_far = len(manager.messages)  # a slow machine may have seemed to hang before
            hanging = await trio.to_thread.run_sync(_status_with, manager, "has not finished a step", so_far)
            later = await trio.to_thread.run_sync(_status_with, manager, "has not finished a step", hanging)
            fed = [number for number in range(hanging, later) if "WATCHDOG" in manager.messages[number]]
            assert fed == []
            await trio.to_thread.run_sync(gate.write_text, "go on")
        async with connect(daemon) as client:
            await until_idle(client)
            assert (await health(client))["status"] == "ok"
        await trio.to_thread.run_sync(lambda: manager.wait_for("WATCHDOG", "1", after=later))


def _status_with(manager: NotifySocket, part: str, after: int) -> int:
    """Until a status after the first `after` messages has this part; its number."""

    def found(messages: list[dict[str, str]]) -> list[int]:
        return [number for number, each in enumerate(messages, 1) if number > after and part in each.get("STATUS", "")]

    return found(manager.wait(lambda messages: bool(found(messages))))[0]


async def test_sockets_that_are_open_already(box: Box, tmp_path: Path) -> None:
    """One of TCP, one of the file system. A client that came before the daemon is served, not refused."""
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as local:
        local.bind(str(tmp_path / "reame.sock"))
        local.listen()
        port = tcp.getsockname()[1]
        wrapper, descriptors = handing_over(tcp, local)
        early = await trio.open_tcp_stream("127.0.0.1", port)
        with box.start(wrapper=wrapper, pass_fds=descriptors, server={"port": port}) as daemon:
            said = daemon.wait_ready().wait_for("INFO listening on ")
            assert f"http://127.0.0.1:{port}, unix:{tmp_path}/reame.sock" in said
            async with early, await trio.open_unix_socket(str(tmp_path / "reame.sock")) as late:
                for wire in (early, late):
                    await wire.send_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    assert b'"status":"ok"' in b"".join([part async for part in wire]).replace(b": ", b":")


def test_an_open_socket_that_others_reach_needs_keys(box: Box) -> None:
    with socket.create_server(("0.0.0.0", 0)) as everywhere:
        wrapper, descriptors = handing_over(everywhere)
        with box.start(wrapper=wrapper, pass_fds=descriptors) as daemon:
            assert daemon.wait_exit() == 1
    assert daemon.lines[-1].startswith("reame: the socket unit listens on 0.0.0.0, which other machines reach")


def test_an_open_socket_that_nobody_can_listen_on(box: Box) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wrong:
        wrapper, descriptors = handing_over(wrong)
        with box.start(wrapper=wrapper, pass_fds=descriptors) as daemon:
            assert daemon.wait_exit() == 1
    assert "it must have ListenStream= and Accept=no" in daemon.lines[-1]


@contextmanager
def with_keys(box: Box, *names: str) -> Iterator[tuple[DaemonProcess, Path]]:
    keys = box.folder / "keys"
    write_keys(keys, *names)
    with box.start(server={"api_keys_file": str(keys)}) as daemon:
        yield daemon.wait_ready(), keys


def write_keys(file: Path, *names: str) -> None:
    file.write_text("".join(f"{name}:sk-{name}\n" for name in names))
    file.chmod(0o600)


async def test_keys_and_level_are_read_again_and_a_stream_runs_on(box: Box) -> None:
    with with_keys(box, "ann", "bob") as (daemon, keys):
        async with connect(daemon, "sk-bob") as bob, connect(daemon, "sk-eve") as eve:
            assert (await eve.get("/v1/models")).status_code == 401
            async with streaming(bob, COMPLETIONS, STORY) as running:
                assert await running.piece()
                write_keys(keys, "ann", "eve")
                daemon.send(signal.SIGHUP)
                said = await trio.to_thread.run_sync(daemon.wait_for, "reloaded: ")
                assert said.endswith("INFO reloaded: 2 API keys, new: eve, gone: bob; log level info")
                assert (await eve.get("/v1/models")).status_code == 200
                assert (await bob.get("/v1/models")).status_code == 401
                told = await running.rest()
            assert (told.reasons, told.is_done, told.error) == ({0: "length"}, True, None)


async def test_a_reload_says_what_needs_a_restart_and_changes_nothing_after_a_mistake(box: Box) -> None:
    with with_keys(box, "ann") as (daemon, keys):
        as_it_was = daemon.config.read_text()
        tables = box.tables | {
            "server": {"api_keys_file": str(keys), "port": daemon.port, "max_body_mb": 3},
            "engine": ENGINE | {"slots": 3},
            "log": {"level": "warning"},
        }
        daemon.config.write_text(tomli_w.dumps(tables))
        daemon.send(signal.SIGHUP)
        said = daemon.wait_for("only after a restart")
        assert said.endswith("only after a restart: engine.slots, server.max_body_mb")
        async with connect(daemon, "sk-ann") as ann:
            assert (await answer(ann, COMPLETIONS, ask("Hello", 2)))["choices"]
            assert "INFO request" not in daemon.log, "the new level holds"
            for text, mistake in (("[engine]\nslots = 'x'\n[log]\nlevel = 3\n", "engine.slots"), ("nonsense", "TOML")):
                daemon.config.write_text(text)
                daemon.send(signal.SIGHUP)
                await trio.to_thread.run_sync(daemon.wait_for, f"ERROR not reloaded: .*{mistake}")
            daemon.config.write_text(as_it_was)
            keys.write_text("ann\x00:\n")
            daemon.send(signal.SIGHUP)
            await trio.to_thread.run_sync(daemon.wait_for, r"ERROR not reloaded: .*keys.* line 1")
            assert (await ann.get("/v1/models")).status_code == 200


def test_a_terminal_that_is_closed_ends_it(box: Box) -> None:
    """A hangup reloads a service; but who closes the terminal that a daemon runs in does not expect it to stay."""
    mine, its = pty.openpty()
    usual = "signal.signal(signal.SIGHUP, signal.SIG_DFL)"  # however these tests were started
    with box.start(wrapper=in_terminal(its, usual), pass_fds=[its]) as daemon:
        os.close(its)
        daemon.wait_ready()
        os.close(mine)
        assert daemon.wait_exit() == 0
    assert "SIGHUP: finishing what runs" in daemon.log


def test_with_nohup_it_outlives_its_terminal(box: Box) -> None:
    mine, its = pty.openpty()
    with box.start(wrapper=in_terminal(its, "signal.signal(signal.SIGHUP, signal.SIG_IGN)"), pass_fds=[its]) as daemon:
        os.close(its)
        daemon.wait_ready()
        os.close(mine)
        daemon.send(signal.SIGHUP)  # as a shell does that is left
        daemon.wait_for("INFO reloaded")
        daemon.send(signal.SIGTERM)
        assert daemon.wait_exit() == 0
    assert "SIGHUP: finishing what runs" not in daemon.log


def in_terminal(descriptor: int, before: str = "") -> list[str]:
    """A wrapper that makes this terminal the daemon's own, and does something `before`."""
    code = f"""
import fcntl, os, signal, sys, termios
{before}
os.setsid()
fcntl.ioctl({descriptor}, termios.TIOCSCTTY, 0)
os.close({descriptor})
os.execv(sys.argv[1], sys.argv[1:])
"""
    return [sys.executable, "-c", code]
