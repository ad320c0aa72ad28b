"""A copy of this checkout's scripts to run for real; only pip, and what it installs, is a stub."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = getattr(sys, "_base_executable", sys.executable)

# Logs its calls; `wheel` prints what ninja would and does as $STUB_BUILD says; `install -e` makes the command `reame`.
STUB_PIP = """
import os, pathlib, sys, zipfile
arguments = sys.argv[1:]
with open(os.environ["STUB_CALLS"], "a") as calls:
    calls.write(" ".join(arguments) + "\\n")
build = os.environ.get("STUB_BUILD", "")
if "wheel" in arguments:
    print("Collecting llama-cpp-python", flush=True)
    print("CMAKE_ARGS:", os.environ["CMAKE_ARGS"], "TMPDIR:", os.environ["TMPDIR"], flush=True)
    if build.startswith("wait "):
        open(build.removeprefix("wait ")).read()
    if build.startswith("fail "):
        sys.exit(pathlib.Path(build.removeprefix("fail ")).read_text())
    out = pathlib.Path(arguments[arguments.index("--wheel-dir") + 1])
    out.mkdir()
    with zipfile.ZipFile(out / "llama_cpp_python-0-py3-none-linux.whl", "w") as wheel:
        wheel.writestr("llama_cpp/__init__.py", "")
if "--editable" in arguments:
    command = pathlib.Path(sys.prefix, "bin", "reame")
    command.write_text('#!/bin/sh\\necho "reame $*" >> "$STUB_CALLS"\\n[ "$1" != config ] || echo "$STUB_CONFIG"\\n')
    command.chmod(0o755)
"""


class Checkout:
    """A copy of the scripts with a .venv whose pip is the stub, its own cache, and an environment to doctor."""

    def __init__(self, folder: Path, *, cache: Path | None = None, venv: bool = True) -> None:
        self.root = folder / "a checkout"
        self.cache = cache or folder / "a cache"
        self.calls_file = folder / "calls"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "REAME_CACHE": str(self.cache),
            "STUB_CALLS": str(self.calls_file),
        }
        shutil.copytree(ROOT / "scripts", self.root / "scripts", ignore=shutil.ignore_patterns("__pycache__", "bench"))
        shutil.copy(ROOT / "pyproject.toml", self.root)
        if venv:
            subprocess.run([PYTHON, "-m", "venv", "--without-pip", self.root / ".venv"], check=True)
            [packages] = (self.root / ".venv").glob("lib/python*/site-packages")
            (packages / "pip").mkdir()
            (packages / "pip" / "__init__.py").touch()
            (packages / "pip" / "__main__.py").write_text(STUB_PIP)

    def start(self, *command: str, **more: str) -> subprocess.Popen[str]:
        """Starts a script of the checkout from another directory, as a person might."""
        return subprocess.Popen(
            [self.root / "scripts" / command[0], *command[1:]],
            cwd="/",
            env=self.environ | more,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *command: str, **more: str) -> tuple[int, str]:
        """Exit code and what it said on standard error; a person must never see a traceback."""
        process = self.start(*command, **more)
        out, said = process.communicate(timeout=120)
        assert "Traceback" not in said + out
        return process.returncode, said

    def calls(self) -> list[str]:
        """What pip and reame were called with since the last look."""
        made = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        self.calls_file.unlink(missing_ok=True)
        return made

    def wheels(self) -> list[str]:
        return sorted(path.name for path in (self.cache / "wheels").iterdir() if path.is_dir())


def only(tmp_path: Path, *commands: str) -> str:
    """A PATH with nothing but these commands and what a shell script needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("bash", "dirname", "tail", *commands):
        found = shutil.which(name)
        assert found
        (folder / name).symlink_to(found)
    (folder / "python3").write_text(f'#!/bin/sh\nexec "{PYTHON}" "$@"\n')
    (folder / "python3").chmod(0o755)
    return str(folder)


def customised(tmp_path: Path, code: str) -> str:
    """A PYTHONPATH with which every Python first runs `code`: a machine that is different."""
    folder = tmp_path / "custom"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(code)
    return str(folder)
