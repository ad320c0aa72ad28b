"""What all tests share: the real small model, which the suite fetches by itself and cannot do without, and how
Hypothesis draws. `--hypothesis-profile=search` draws others each time, more of them where a test does not say how many,
and keeps what failed.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import trio
from hypothesis import HealthCheck, settings
from turns import turn, unheard

from reame.catalog import resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from trio.testing import MockClock

MODEL = "smollm2-135m"

# No test depends on a clock, nor on which examples were drawn today: what fails here fails everywhere.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, print_blob=True
)
settings.register_profile("search", settings.get_profile("default"), deadline=None, max_examples=1000)
settings.load_profile("suite")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    with turn(alone=item.get_closest_marker("alone") is not None), unheard():
        return (yield)


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is remembered from one run of the suite to the next is nothing; and nobody's own memory is touched."""
    directory = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REAME_CACHE", str(directory))
        yield directory


@pytest.fixture(scope="session", autouse=True)
def null_files() -> Iterator[None]:
    """llama_cpp opens /dev/null when it is imported, and leaves it to the interpreter's end, which complains."""
    yield
    if module := sys.modules.get("llama_cpp._utils"):
        module.outnull_file.close()
        module.errnull_file.close()


@pytest.fixture(scope="session")
def model_path() -> Path:
    """The GGUF of SmolLM2-135M-Instruct, pulled when it is not there. No model, no green suite."""
    done = subprocess.run(
        [sys.executable, "-m", "reame", "pull", MODEL], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        pytest.fail(f"the test model cannot be had: {done.stderr.strip()}", pytrace=False)
    return resolve(MODEL)


@pytest.fixture
def autojump_clock(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> MockClock:
    """Trio's, beside which the work of threads is done at once: virtual time does not wait for a thread, but jumps to
    the next deadline while it works, and on a busy machine that would fail the test."""

    async def run_sync(function: Callable[..., object], *args: object, **_: object) -> object:
        await trio.lowlevel.checkpoint()
        return function(*args)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
    return autojump_clock
