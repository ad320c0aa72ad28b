"""From the first moment: what a probe and an early client are told, and what a start that cannot succeed says.

The canary process is held, or made to crash, by a `sitecustomize` of its own: a model that takes long, or that kills
llama.cpp on this machine.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import tomli_w
import trio
from daemon_process import PATIENCE_S, REAME, free_port
from httpx2 import AsyncClient, ConnectError
from talking import CHAT, COMPLETIONS, answer, ask, connect, say

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess, Tables


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """A named pipe. Whoever writes to it lets one canary go on that was started with `held_at`."""
    path = tmp_path / "gate"
    os.mkfifo(path)
    return path


def in_canary(folder: Path, code: str) -> dict[str, str]:
    """An environment whose canary processes first run `code`, and have no kept verdict to spare them."""
    (folder / "sitecustomize.py").write_text(f"import sys\nif 'reame.engine.canary' in sys.orig_argv:\n    {code}\n")
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(paths), "REAME_CACHE": str(folder / "cache")}


def held_at(gate: Path) -> dict[str, str]:
    return in_canary(gate.parent, f"open({str(gate)!r}).read()")


async def test_ready_is_said_when_it_can_answer_and_not_before(launch: Launch, gate: Path) -> None:
    statuses: list[int] = []
    with launch(held_at(gate), engine={"context": 256}) as daemon:
        async with connect(daemon) as client, trio.open_nursery() as nursery:
            await first_answer(daemon, client)
            nursery.start_soon(probe, client, statuses)
            await check_refused(client, await client.get("/v1/models"))
            await check_refused(client, await client.post(CHAT, json=say("Hello")))
            await check_refused(client, await client.get("/v1/responses/resp_1"))
            await check_refused(client, await client.delete("/v1/responses/resp_1"))
            goes_on = {"input": "x", "previous_response_id": "resp_1"}
            await check_refused(client, await client.post("/v1/responses", json=goes_on))
            await check_refused(client, await client.post(COMPLETIONS, json=ask("Hello", stream=True)))
            await trio.to_thread.run_sync(gate.write_text, "go")
        assert sorted(statuses, reverse=True) == statuses, "once ready, always ready"
        assert set(statuses) == {200, 503}


async def first_answer(daemon: DaemonProcess, client: AsyncClient) -> None:
    """Knocks until somebody opens; who is turned away has knocked before "listening" was said."""
    with trio.fail_after(PATIENCE_S):
        while True:
            said = daemon.log
            try:
                response = await client.get("/health")
            except ConnectError:
                assert "INFO listening on" not in said
                await trio.to_thread.run_sync(daemon.wait_listening)
            else:
                assert response.status_code == 503
                assert int(response.headers["Retry-After"]) > 0
                assert response.json()["status"] == "loading"
                return


async def probe(client: AsyncClient, statuses: list[int]) -> None:
    """Asks /health until it is 200; then a chat is answered, at once."""
    with trio.fail_after(PATIENCE_S):
        while not statuses or statuses[-1] != 200:
            statuses.append((await client.get("/health")).status_code)
        assert (await answer(client, CHAT, say("Hello", 1)))["choices"]
        statuses.append((await client.get("/health")).status_code)


async def check_refused(client: AsyncClient, response: Any) -> None:
    assert response.status_code == 503
    assert int(response.headers["Retry-After"]) > 0
    error = response.json()["error"]
    assert (error["code"], error["type"]) == ("server_loading", "server_error")


def test_a_signal_while_the_model_is_tried_ends_it(launch: Launch, gate: Path) -> None:
    """The trial may take minutes for a large model; nobody waits for it, and its process is not left behind."""
    with launch(held_at(gate)) as daemon:
        with gate.open("w"):  # opens when the canary has come to the gate, which stays shut as nothing is written
            daemon.send(signal.SIGTERM)
            assert daemon.wait_exit() == 0
        with pytest.raises(OSError, match="No such device"):  # nobody holds the other end any more
            os.open(gate, os.O_WRONLY | os.O_NONBLOCK)
        assert "Traceback" not in daemon.log


def test_a_signal_while_the_model_is_loaded_ends_it(launch: Launch) -> None:
    with launch() as daemon:
        daemon.wait_listening()
        daemon.send(signal.SIGINT)
        assert daemon.wait_exit() == 0
        assert "Traceback" not in daemon.log


def refusal(folder: Path, tables: Tables, environ: dict[str, str] | None = None) -> str:
    """The last line of a daemon that does not start: the only one that does not come from the log. Exit status 1."""
    config = folder / "c.toml"
    server = {"port": free_port()} | tables.get("server", {})
    config.write_text(tomli_w.dumps(tables | {"server": server}))
    done = subprocess.run(
        ["prlimit", "--as=16000000000", REAME, "serve", "--config", config],  # no machine shall be filled by a test
        env={**os.environ, **(environ or {})}, cwd=folder,
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (1, "")
    *log, last = done.stderr.splitlines()
    assert all(" INFO " in line or " WARNING " in line for line in log), done.stderr
    assert last.startswith("reame: ")
    return last


def test_a_model_that_is_not_there(tmp_path: Path) -> None:
    assert "no model is called 'nonesuch'" in refusal(tmp_path, {"model": {"path": "nonesuch"}})
    assert "No such file" in refusal(tmp_path, {"model": {"path": str(tmp_path / "gone.gguf")}})


def test_a_model_that_is_none(tmp_path: Path, model_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_text("nothing of the kind")
    assert "is not a GGUF file" in refusal(tmp_path, {"model": {"path": str(broken)}})
    with model_path.open("rb") as whole:
        broken.write_bytes(whole.read(1 << 24))
    assert "damaged" in refusal(tmp_path, {"model": {"path": str(broken)}})


def test_a_model_that_crashes_here(tmp_path: Path, model_path: Path) -> None:
    environ = in_canary(tmp_path, "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert "SIGSEGV" in refusal(tmp_path, {"model": {"path": str(model_path)}}, environ)


def test_more_cells_than_there_is_memory(tmp_path: Path, model_path: Path) -> None:
    tables: Tables = {"model": {"path": str(model_path)}, "engine": {"cells": 4_000_000}}
    assert "engine.cells" in refusal(tmp_path, tables)


def test_a_port_that_is_taken(tmp_path: Path, model_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        tables: Tables = {"model": {"path": str(model_path)}, "server": {"port": port}}
        assert f"port {port} of 127.0.0.1 is in use" in refusal(tmp_path, tables)


def test_everywhere_without_a_key(tmp_path: Path, model_path: Path) -> None:
    refuse = partial(refusal, tmp_path)
    tables: Tables = {"model": {"path": str(model_path)}, "server": {"host": "0.0.0.0"}}
    assert "api_keys_file" in refuse(tables)
    (tmp_path / "keys").write_text("# nobody yet\n")
    tables["server"]["api_keys_file"] = str(tmp_path / "keys")
    assert "keys" in refuse(tables)
