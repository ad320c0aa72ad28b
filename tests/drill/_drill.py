"""What drills share: a daemon of their own, the clients of tests/e2e, and how a drill tells what it gave."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from daemon_process import DaemonProcess

from reame.catalog import resolve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon_process import Tables

MODEL = "smollm2-135m"
WORDS = [
    "river", "stone", "bread", "clock", "seven", "winter", "letter", "garden", "copper", "engine", "silver", "window",
    "paper", "horse", "bridge", "lantern", "market", "orange", "planet", "summer",
]  # fmt: skip


def arguments(doc: str | None, **defaults: int | float) -> argparse.Namespace:
    """The command line: an option with a default for each keyword."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=" ")
    return parser.parse_args()


def model_tables(tables: Tables) -> Tables:
    """The config's tables with the real small model in them, which is pulled when it is not there."""
    subprocess.run([sys.executable, "-m", "reame", "pull", MODEL], check=True, capture_output=True)
    return tables | {"model": {"path": str(resolve(MODEL))} | tables.get("model", {})}


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reame-drill-") as folder:
        yield Path(folder)


@contextmanager
def serving(**tables: dict[str, object]) -> Iterator[DaemonProcess]:
    """A ready daemon whose memory is its own. Its end must be a clean one."""
    with scratch() as folder:
        tables["memory"] = {"path": str(folder / "memory")} | tables.get("memory", {})
        with DaemonProcess(folder, model_tables(tables), {}) as daemon:
            yield daemon.wait_ready()


def verdict(faults: list[str]) -> int:
    """Tells the first faults, and gives the exit code."""
    for fault in faults[:20]:
        print(f"FAULT: {fault}")
    print("held" if not faults else f"FAILED: {len(faults)} faults")
    return int(bool(faults))
