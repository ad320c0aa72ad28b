"""A daemon for other people's clients, which `scripts/clients` puts into `.clients`. It embeds with the same model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from daemon_process import DaemonProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

CLIENTS = Path(__file__).resolve().parents[2] / ".clients"


@pytest.fixture(scope="session")
def served(model_path: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    folder = tmp_path_factory.mktemp("clients")
    tables: dict[str, dict[str, object]] = {
        "model": {"path": str(model_path), "id": "small"},
        "engine": {"context": 2048, "slots": 8},
        "embeddings": {"model": str(model_path), "id": "small-vectors"},
        "memory": {"path": str(folder / "memory")},
    }
    with DaemonProcess(folder, tables, {"REAME_CACHE": str(cache)}) as daemon:
        yield daemon.wait_ready()


@pytest.fixture(scope="session")
def clients() -> Path:
    """The folder of clients. Without them there is no green suite."""
    groups = ("python", "llamaindex", "node")
    missing = [name for name in groups if not (CLIENTS / name / "set-up.txt").exists()]
    if missing:
        pytest.fail(f"no clients in .clients ({', '.join(missing)}): run ./scripts/clients", pytrace=False)
    return CLIENTS
