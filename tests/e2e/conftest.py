"""Daemons for the whole-program tests. They share the suite's cache, so that a model's canary is tried once, for real;
what a daemon remembers on disk is its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest
from daemon_process import DaemonProcess
from talking import connect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping
    from pathlib import Path

    from httpx2 import AsyncClient


class Launch(Protocol):
    """Starts a daemon on the real small model; tables of its config as keywords, additions to its environment first.

    Old answers are not given again, unless `memory` says so: the tests want them computed.
    """

    def __call__(self, environ: Mapping[str, str] = ..., /, **tables: dict[str, object]) -> DaemonProcess: ...


@pytest.fixture(scope="session")
def launch(model_path: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    def start(environ: Mapping[str, str] | None = None, /, **tables: dict[str, object]) -> DaemonProcess:
        folder = tmp_path_factory.mktemp("daemon")
        defaults: dict[str, dict[str, object]] = {
            "model": {"path": str(model_path)},
            "memory": {"path": str(folder / "memory"), "answers": False},
        }
        for name, table in defaults.items():
            tables[name] = table | tables.get(name, {})
        return DaemonProcess(folder, tables, {"REAME_CACHE": str(cache)} | dict(environ or {}))

    return start


@pytest.fixture(scope="session")
def daemon(launch: Launch) -> Iterator[DaemonProcess]:
    """The one that most tests share: eight slots, otherwise as shipped."""
    with launch(engine={"slots": 8, "context": 2048}) as started:
        yield started.wait_ready()


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[AsyncClient]:
    async with connect(daemon) as opened:
        yield opened
