"""What all tests share: the real small model, which the suite fetches by itself and cannot do without."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from reame.catalog import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = "smollm2-135m"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is remembered from one run of the suite to the next is nothing; and nobody's own memory is touched."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REAME_CACHE", str(directory))
        yield directory


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The GGUF of SmolLM2-135M-Instruct, pulled when it is not there. No model, no green suite."""
    done = subprocess.run(
        [sys.executable, "-m", "reame", "pull", MODEL], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        pytest.fail(f"the test model cannot be had: {done.stderr.strip()}", pytrace=False)
    return resolve(MODEL)
