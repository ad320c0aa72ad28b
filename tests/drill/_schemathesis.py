"""schemathesis against a daemon, from the daemon's own /openapi.json: hundreds or thousands of requests made of it."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon_process import DaemonProcess

CLIENTS = Path(__file__).resolve().parents[2] / ".clients"
NOT_SAID = ("positive_data_acceptance", "ignored_auth")
"""A schema cannot tell which models, templates and lengths there are; and this daemon asks for no keys."""
TOOLS_OWN = ("hypothesis.errors.", "AST constructor recursion")
"""In errors of the tool itself, which failed to think up a request (the second is a fault of Python 3.11's parser)."""


def schemathesis(daemon: DaemonProcess, folder: Path, *, examples: int, seconds: int, seed: int) -> list[str]:
    """The faults that were found in so many seconds; 0: in so many examples, each time the same ones, and none of those
    that are thought out for every field. Raises when the tool did nothing."""
    effort = ["--phases", "coverage,fuzzing", "--max-time", str(seconds), "--workers", "2"]
    if not seconds:
        effort = ["--phases", "fuzzing", "--generation-deterministic", "--workers", "1"]
    report = folder / "junit.xml"
    words = [
        str(CLIENTS / "python" / "bin" / "schemathesis"), "run", f"{daemon.url}/openapi.json", "--url", daemon.url,
        *effort, "--checks", "all", "--exclude-checks", ",".join(NOT_SAID),
        "--max-examples", str(examples), "--seed", str(seed),
        "--continue-on-failure", "--request-timeout", "300", "--max-response-time", "300", "--no-color",
        "--report", "junit", "--report-junit-path", str(report),
    ]  # fmt: skip
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_PROXY": "*"}
    done = subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, timeout=10 * seconds + 300, check=False
    )
    print("\n".join(line for line in done.stdout.splitlines() if "generated" in line or "Tested" in line))
    if not report.exists():
        raise RuntimeError(f"schemathesis told nothing: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    found = [each for kind in ("failure", "error") for each in ElementTree.parse(report).iter(kind)]
    texts = [f"{each.get('message') or ''} {each.text or ''}" for each in found]
    return [text for text in texts if not any(own in text for own in TOOLS_OWN)]
