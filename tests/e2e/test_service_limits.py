"""What the machine and the operator allow: time, cores, locked memory, directories. All of it holds, and is said."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from daemon_process import DaemonProcess
from streams import stream, streaming
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, until_busy, until_idle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from conftest import Launch
    from daemon_process import Tables
    from httpx2 import AsyncClient, Response

ENGINE: dict[str, object] = {"slots": 1, "context": 2048}
STORY = ask("Once upon a time", 2000, logit_bias=ENDLESS)


async def test_a_request_that_takes_too_long_is_ended_and_its_slot_is_free(launch: Launch) -> None:
    """One that is streamed, by an event; one that waited all that time, by its status. Then others are served."""
    waited: list[Response] = []

    async def wait(client: AsyncClient) -> None:
        waited.append(await client.post(COMPLETIONS, json=ask("Two", 2000, logit_bias=ENDLESS)))

    with launch(engine=ENGINE, scheduler={"request_timeout_s": 4}) as daemon:
        async with connect(daemon.wait_ready()) as client:
            async with trio.open_nursery() as nursery, streaming(client, COMPLETIONS, STORY) as running:
                assert await running.piece()
                nursery.start_soon(wait, client)
                await until_busy(client, running=1, waiting=1)
                told = await running.rest()
            assert told.error is not None
            assert (told.error["code"], told.is_done, bool(told.texts[0])) == ("request_timeout", False, True)
            assert [(each.status_code, each.json()["error"]["code"]) for each in waited] == [(408, "request_timeout")]
            seen = await until_idle(client)
            assert seen["cells_running"] == 0
            assert (await answer(client, COMPLETIONS, ask("Hello", 2)))["usage"]["completion_tokens"] <= 2
            assert (await client.get("/health")).json()["queue"]["oldest_wait_s"] == 0


async def test_a_daemon_that_was_frozen_goes_on_where_it_was(launch: Launch) -> None:
    """As a laptop that slept, or a host that stopped its guests."""
    with launch(engine=ENGINE, scheduler={"stall_s": 0.5}) as daemon:
        async with connect(daemon.wait_ready()) as client:
            asked = STORY | {"max_tokens": 25}
            undisturbed = await stream(client, COMPLETIONS, asked)
            async with streaming(client, COMPLETIONS, asked | {"reame": {"answers": False}}) as running:
                assert await running.piece()
                daemon.send(signal.SIGSTOP)
                await trio.to_thread.run_sync(until_state, daemon.process.pid, "T")
                daemon.send(signal.SIGCONT)
                told = await running.rest()
            assert (told.texts, told.is_done) == (undisturbed.texts, True)
            assert (await client.get("/health")).status_code == 200


def until_state(pid: int, letter: str) -> None:
    """Looks until the kernel shows the process in this state."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != letter:
        pass


def start(folder: Path, tables: Tables, environ: dict[str, str], wrapper: Sequence[str]) -> DaemonProcess:
    defaults: Tables = {"engine": ENGINE, "memory": {"enabled": False}}
    return DaemonProcess(folder, defaults | tables, environ, wrapper=wrapper)


async def test_one_core_of_many_and_no_memory_to_lock(tmp_path: Path, model_path: Path, cache: Path) -> None:
    """No more threads than cores that may be used; a lock that is refused is one warning with its cure."""
    cpu = min(os.sched_getaffinity(0))
    wrapper = ["taskset", "--cpu-list", str(cpu), "prlimit", "--memlock=65536"]
    if os.geteuid() == 0:  # root may lock what it likes, unless it has lost that capability
        wrapper += ["setpriv", "--bounding-set=-ipc_lock"]
    model = {"path": str(model_path), "mlock": True}
    with start(tmp_path, {"model": model}, {"REAME_CACHE": str(cache)}, wrapper) as daemon:
        assert daemon.wait_ready().wait_for(" 1 thread: ")
        async with connect(daemon) as client:
            assert (await answer(client, COMPLETIONS, ask("Hello", 2)))["choices"]
        warnings = [line for line in daemon.lines if " WARNING " in line]
        assert len(warnings) == 1, warnings
        assert "LimitMEMLOCK=infinity" in warnings[0]


async def test_the_directories_of_a_unit_are_used_and_no_home_is_needed(tmp_path: Path, model_path: Path) -> None:
    """The model is found by its name below $STATE_DIRECTORY, what is remembered goes below $CACHE_DIRECTORY."""
    state, cache, elsewhere = tmp_path / "state", tmp_path / "cache", tmp_path / "elsewhere"
    (state / "models").mkdir(parents=True)
    (state / "models" / "mine.gguf").symlink_to(model_path)
    for folder in (cache, elsewhere):
        folder.mkdir()
    environ = {"STATE_DIRECTORY": str(state), "CACHE_DIRECTORY": str(cache), "XDG_CACHE_HOME": str(elsewhere)}
    wrapper = ["env", "--unset=HOME", "--unset=REAME_CACHE", "--unset=REAME_MODELS"]
    tables: Tables = {"model": {"path": "mine"}, "memory": {"enabled": True}}
    with start(tmp_path, tables, environ, wrapper) as daemon:
        async with connect(daemon.wait_ready()) as client:
            found = await answer(client, COMPLETIONS, ask("Hello", 2))
            assert found["model"] == "mine"
    assert {"canary", "memory"} <= {path.name for path in cache.iterdir()}
    assert list(elsewhere.iterdir()) == []


def as_service(folder: Path, tables: Tables, **environ: str) -> str:
    """The last words of a daemon that believes to be a service and cannot start."""
    script = 'SYSTEMD_EXEC_PID=$$ exec "$@"'
    with start(folder, tables, environ, ["sh", "-c", script, "-"]) as daemon:
        assert daemon.wait_exit() == 1
    return daemon.lines[-1]


def test_a_service_is_told_what_its_unit_lacks(tmp_path: Path) -> None:
    state = {"STATE_DIRECTORY": str(tmp_path / "state")}
    hidden = tmp_path / "nowhere" / "m.gguf"
    said = as_service(tmp_path, {"model": {"path": str(hidden)}}, **state)
    assert re.search(rf"user id {os.geteuid()}: .*BindReadOnlyPaths={re.escape(str(hidden))}", said)
    said = as_service(tmp_path, {"model": {"path": "qwen2.5-0.5b"}}, **state, REAME_MODELS="")
    assert f"run `sudo REAME_MODELS={tmp_path}/state/models reame pull qwen2.5-0.5b`" in said
    said = as_service(tmp_path, {"server": {"api_keys_file": "/etc/reame/none-here"}}, **state)
    assert "put the keys into /etc/reame/api-keys, and name its copy here, /run/reame/api-keys" in said

