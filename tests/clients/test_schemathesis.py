"""A short run of what `tests/drill/fuzz.py` does for long: no request that the description allows, or just does not
allow, is answered otherwise than described."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "drill"))

from _schemathesis import schemathesis
from daemon_process import DaemonProcess

if TYPE_CHECKING:
    import pytest


def test_answers_are_as_described(
    clients: Path, model_path: Path, cache: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    tables: dict[str, dict[str, object]] = {
        "model": {"path": str(model_path)},
        "engine": {"context": 128, "slots": 4},
        "embeddings": {"model": str(model_path), "id": "vectors", "context": 128},
        "sampling": {"max_tokens": 2},
        "memory": {"path": str(tmp_path / "memory")},
    }
    with DaemonProcess(tmp_path, tables, {"REAME_CACHE": str(cache)}) as daemon:
        daemon.wait_ready()
        assert schemathesis(daemon, tmp_path, examples=1, seconds=0, seed=1) == []
        assert httpx2.get(f"{daemon.url}/health", trust_env=False).json()["status"] == "ok"
