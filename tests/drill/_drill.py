"""What drills share: a daemon of their own, the clients of tests/e2e, and how a drill tells what it gave."""

from __future__ import annotations

import argparse
import os
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


def arguments(doc: str | None, **defaults: int | float | str) -> argparse.Namespace:
    """The command line: an option with a default for each keyword."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default, help=" ")
    return parser.parse_args()


def play_more(test: str, variable: str, count: int, what: str) -> int:
    """A test of the suite with `count` instead of the few that it plays there. Returns its exit status."""
    words = [sys.executable, "-m", "pytest", "-q", test]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(words, cwd=root, env=os.environ | {variable: str(count)}, check=False)
    print(f"{count} {what}: {'held' if not done.returncode else 'FAILED'}")
    return done.returncode


def start(folder: Path, tables: Tables) -> DaemonProcess:
    """A daemon on the real small model, unless `tables` name another. It is pulled when it is one of the catalogue and
    not there. All that the daemon keeps is in `folder`, but for what it knows of models when $REAME_CACHE is set."""
    name = str(tables.get("model", {}).get("path", MODEL))
    if not Path(name).is_file():
        subprocess.run([sys.executable, "-m", "reame", "pull", name], check=True, capture_output=True)
    tables = tables | {
        "model": {"path": str(resolve(name))},
        "memory": {"path": str(folder / "memory")} | tables.get("memory", {}),
        "batch": {"path": str(folder / "batches")} | tables.get("batch", {}),
    }
    return DaemonProcess(folder, tables, {"REAME_CACHE": os.environ.get("REAME_CACHE") or str(folder / "cache")})


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="reame-drill-") as folder:
        yield Path(folder)


@contextmanager
def serving(**tables: dict[str, object]) -> Iterator[DaemonProcess]:
    """A ready daemon that remembers nothing of another one. Its end must be a clean one."""
    with scratch() as folder, start(folder, tables) as daemon:
        yield daemon.wait_ready()


def verdict(faults: list[str]) -> int:
    """Tells the first faults, and gives the exit code."""
    for fault in faults[:20]:
        print(f"FAULT: {fault}")
    print("held" if not faults else f"FAILED: {len(faults)} faults")
    return int(bool(faults))
