"""Daemons for the whole-program tests. They share one cache: the canary is tried once, for real."""

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
    """Starts a daemon on the real small model; tables of its config as keywords."""

    def __call__(self, environ: Mapping[str, str] = ..., /, **tables: dict[str, object]) -> DaemonProcess: ...


@pytest.fixture(scope="session")
def launch(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Launch:
    folder = tmp_path_factory.mktemp("daemons")
    cache = {"REAME_CACHE": str(folder / "cache")}

    def start(environ: Mapping[str, str] = cache, /, **tables: dict[str, object]) -> DaemonProcess:
        model = {"path": str(model_path)} | tables.get("model", {})
        return DaemonProcess(folder, tables | {"model": model}, cache | dict(environ))

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
