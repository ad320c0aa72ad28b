"""Sets up `.clients`: other people's clients, each group in an environment of its own. Standard library only.

A group is a folder of `.clients`; `set-up.txt` in it says what it was made from. While that is so, nothing is done.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import llama_wheel
import pip_call
from console import Refusal, duration, say

ROOT = Path(__file__).resolve().parents[2]
WANTED = ROOT / "tests" / "clients"
CLIENTS = ROOT / ".clients"
DISK_BYTES = 1_500_000_000
NPM_SECONDS = 600


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with llama_wheel.locked(ROOT, "works in this checkout"):
            set_up()
    except (Refusal, OSError) as fault:
        say(f"error: {fault}")
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing half made is left")
        return 130
    return 0


def set_up() -> None:
    """Every group that is not as it should be is made anew. Raises Refusal before anything long begins, or from it."""
    todo = [group for group in GROUPS if not is_done(*group)]
    if "node" in [name for name, *_ in todo] and not (shutil.which("node") and shutil.which("npm")):
        raise Refusal("npm is missing, and without it the clients for Node cannot be tried: on Debian, apt install npm")
    if todo and (lack := llama_wheel.lack_of_disk(CLIENTS, DISK_BYTES, "the clients")):
        raise Refusal(lack[0])
    for name, file, make in todo:
        started = time.monotonic()
        folder = CLIENTS / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            make(folder, WANTED / file)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        (folder / "set-up.txt").write_text(made_from(file))
        say(f"clients in .clients/{name} are ready in {duration(time.monotonic() - started)}")


def is_done(name: str, file: str, _: object) -> bool:
    with suppress(OSError):
        return (CLIENTS / name / "set-up.txt").read_text() == made_from(file)
    return False


def made_from(file: str) -> str:
    wanted = hashlib.sha256((WANTED / file).read_bytes()).hexdigest()
    return f"{CLIENTS}\n{platform.python_version()}\n{wanted}\n"


def make_venv(folder: Path, requirements: Path) -> None:
    base = getattr(sys, "_base_executable", sys.executable)
    subprocess.run([base, "-m", "venv", str(folder)], check=True, env=pip_call.pip_environment(os.environ))
    doing = f"installing {requirements.name}"
    say(doing)
    pip_call.call(
        folder / "bin" / "python",
        ["install", "-r", str(requirements)],
        log=folder / "set-up.log",
        doing=doing,
        status=lambda line: f"{doing}: {line.split()[1]}" if line.startswith("Collecting ") else None,
        cwd=ROOT,
        environ=os.environ,
    )


def make_node(folder: Path, package: Path) -> None:
    say("installing the packages for Node")
    shutil.copy(package, folder)
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=NPM_SECONDS, check=False
    )
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise Refusal(f"`{' '.join(command)}` failed: {' '.join(last)}")


GROUPS = (
    ("python", "requirements.txt", make_venv),
    ("llamaindex", "requirements-llamaindex.txt", make_venv),
    ("node", "package.json", make_node),
)


if __name__ == "__main__":
    sys.exit(main())
