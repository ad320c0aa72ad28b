"""Fixtures of the API's tests; the scripted intake and the server in front of it are in scripted.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted import NoMetrics, ScriptedIntake

from reame.api.app import create_app
from reame.config import Config

if TYPE_CHECKING:
    from pathlib import Path

    from quart.typing import TestClientProtocol


@pytest.fixture
def intake() -> ScriptedIntake:
    return ScriptedIntake()


@pytest.fixture
def client(intake: ScriptedIntake) -> TestClientProtocol:
    """The application in this process, without sockets and with the defaults."""
    return create_app(Config(), intake, NoMetrics(), ()).test_client()


@pytest.fixture
def note(tmp_path: Path) -> Path:
    """A text to be warmed."""
    file = tmp_path / "note.txt"
    file.write_text("Once upon a time\n")
    return file
