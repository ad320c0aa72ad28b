"""On what a benchmark ran: facts for the JSON and one line for people."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from bench.errors import BenchError


def facts(root: Path) -> dict[str, str | int]:
    """Machine and versions. `root`: the checkout, whose commit is named (with a + when files differ from it)."""
    memory = re.search(r"MemTotal:\s+(\d+)", Path("/proc/meminfo").read_text())
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu_name(Path("/proc/cpuinfo").read_text()),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
        "kernel": platform.release(),
        "python": platform.python_version(),
        "llama_cpp_python": version("llama-cpp-python"),
        "reame": version("reame"),
        "commit": commit(root),
    }


def cpu_name(cpuinfo: str) -> str:
    """The first `model name` of /proc/cpuinfo; ARM has none and gives its architecture."""
    found = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    return found[1].strip() if found else platform.machine()


def llama_server_version(binaries: Path) -> str:
    """What `llama-server --version` says of itself. BenchError when it does not run."""
    try:
        done = subprocess.run([binaries / "llama-server", "--version"], capture_output=True, text=True, check=False)
    except OSError as error:
        raise BenchError(f"cannot run {binaries / 'llama-server'}: {error.strerror}") from error
    found = re.search(r"^version: (.+)$", done.stdout + done.stderr, re.MULTILINE)
    if done.returncode or found is None:
        raise BenchError(f"{binaries / 'llama-server'} does not run: {(done.stderr or done.stdout).strip()[-200:]}")
    return found[1]


def commit(root: Path) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty=+"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
