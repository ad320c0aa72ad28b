"""Sets this checkout up: .venv, llama-cpp-python built for this CPU, the package. Standard library only.

`.venv/set-up.json` says what the .venv was made from. While that is still so there is nothing to do, and no pip call.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llama_wheel
import own_kernels
import pip_call
from console import Refusal, duration, say
from recipe import recipe_for

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parents[2]
VENV_BYTES = 600_000_000


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """What a finished .venv was made from."""

    checkout: str
    python: str
    project: str
    wheel: str
    extras: tuple[str, ...]
    kernels: str
    """A hash of the sources of the own kernels, empty where there are none for this CPU."""
    cpu_features: tuple[str, ...]
    """Of the CPU that llama.cpp was built on: `reame` compares before it loads the library and could only crash."""

    @classmethod
    def read(cls, path: Path) -> Stamp | None:
        """None when there is none, or it is not one of ours."""
        try:
            values = json.loads(path.read_text()).items()
            fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values}
            return cls(**fields)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self), indent=1) + "\n")
        part.replace(path)


class SetUp:
    """One set-up of the checkout at `root`, from looking at what is there to the written stamp."""

    def __init__(self, root: Path, extras: set[str], environ: Mapping[str, str]) -> None:
        self.root, self.environ = root, environ
        self.venv = root / ".venv"
        self.python = self.venv / "bin" / "python"
        self.wheels = cache_folder(environ) / "wheels"
        project = (root / "pyproject.toml").read_bytes()
        self.recipe = recipe_for(pinned_version(project), environ, cpuinfo=read_cpuinfo())
        self.have = Stamp.read(self.stamp)
        # scripts/setup runs the .venv's own Python when it works. A .venv moved with its checkout has stale paths.
        works = Path(sys.prefix).resolve() == self.venv.resolve() and importlib.util.find_spec("pip") is not None
        self.keep_venv = works and (self.have is None or self.have.checkout == str(root))
        kept = self.have.extras if self.have and self.keep_venv else ()
        self.want = Stamp(
            checkout=str(root),
            python=platform.python_version(),
            project=hashlib.sha256(project).hexdigest(),
            wheel=self.recipe.key,
            kernels=own_kernels.key(root, self.recipe),
            extras=tuple(sorted(extras.union(kept))),
            cpu_features=self.recipe.cpu_features,
        )

    @property
    def stamp(self) -> Path:
        return self.venv / "set-up.json"

    @property
    def done(self) -> bool:
        return self.keep_venv and self.have == self.want and (self.venv / "bin" / "reame").exists()

    def obstacles(self) -> list[str]:
        """All reasons why this set-up would fail, one line each, found before anything long begins."""
        found = [] if self.keep_venv else lack_of_venv()
        if llama_wheel.find(self.recipe, self.wheels) is None:
            found += llama_wheel.obstacles(self.recipe, self.wheels)
        return found + llama_wheel.lack_of_disk(self.root, VENV_BYTES, "the Python packages")

    def run(self) -> None:
        started = time.monotonic()
        say(f"Python {platform.python_version()}, {len(os.sched_getaffinity(0))} cores, in {self.root}")
        if not self.keep_venv:
            self.make_venv()
        wheel = llama_wheel.obtain(self.recipe, self.wheels, python=self.python, environ=self.environ)
        self.stamp.unlink(missing_ok=True)
        if self.have is None or not self.keep_venv or self.have.wheel != self.want.wheel:
            self.pip(["--no-index", "--no-deps", "--force-reinstall", str(wheel)], "installing llama-cpp-python")
        extras = f"[{','.join(self.want.extras)}]" if self.want.extras else ""
        self.pip(["--editable", f".{extras}"], f"installing reame{extras} and its packages")
        if self.want.kernels:
            say("building the matrix kernels")
            own_kernels.build(self.root, self.venv, self.recipe)
        self.want.write(self.stamp)
        say(f"ready in {duration(time.monotonic() - started)}")

    def make_venv(self) -> None:
        base = getattr(sys, "_base_executable", sys.executable)  # not a Python inside the .venv that is about to go
        command = [base, "-m", "venv", "--clear", str(self.venv)]
        say(f"making {self.venv}")
        try:
            subprocess.run(
                command, env=pip_call.pip_environment(self.environ), check=True, capture_output=True, text=True
            )
        except BaseException as fault:
            shutil.rmtree(self.venv, ignore_errors=True)  # half a .venv looks like a whole one to the next set-up
            if isinstance(fault, subprocess.CalledProcessError):
                last = (fault.stdout + fault.stderr).strip().splitlines()[-1:]
                raise Refusal(f"`{shlex.join(command)}` failed: {' '.join(last)}") from None
            raise

    def pip(self, arguments: list[str], doing: str) -> None:
        say(doing)
        pip_call.call(
            self.python,
            ["install", *arguments],
            log=self.venv / "set-up.log",
            doing=doing,
            status=lambda line: collected(doing, line),
            cwd=self.root,
            environ=self.environ,
        )


def collected(doing: str, line: str) -> str | None:
    package = re.match(r"\s*Collecting ([\w.-]+)", line)
    return f"{doing}: {package[1]}" if package else None


def lack_of_venv() -> list[str]:
    missing = [module for module in ("venv", "ensurepip") if importlib.util.find_spec(module) is None]
    if not missing:
        return []
    return [f"{sys.executable} has no module {' and no '.join(missing)}: on Debian, apt install python3-venv"]


def pinned_version(pyproject: bytes) -> str:
    """The version of llama-cpp-python that the project pins; pyproject.toml is the one place that names it."""
    for requirement in tomllib.loads(pyproject.decode())["project"]["dependencies"]:
        if pin := re.fullmatch(rf"{llama_wheel.PACKAGE}\s*==\s*([\w.]+)", requirement):
            return pin[1]
    raise Refusal(f"pyproject.toml pins no {llama_wheel.PACKAGE}==VERSION among its dependencies")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """$REAME_CACHE, else `reame` in $XDG_CACHE_HOME, else ~/.cache/reame."""
    if chosen := environ.get("REAME_CACHE"):
        return Path(chosen).absolute()
    if shared := environ.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "reame"
    try:
        return Path.home() / ".cache" / "reame"
    except RuntimeError:
        raise Refusal("this user has no home directory: set REAME_CACHE to a folder for built wheels") from None


def read_cpuinfo() -> str:
    try:
        return Path("/proc/cpuinfo").read_text()
    except OSError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/setup", description=__doc__)
    parser.add_argument("--extra", action="append", default=[], help="also install this extra of pyproject.toml")
    extras = set(parser.parse_args().extra)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        with llama_wheel.locked(ROOT, "works in this checkout"):
            todo = SetUp(ROOT, extras, os.environ)
            if todo.done:
                return 0
            if obstacles := todo.obstacles():
                for line in obstacles:
                    say(f"error: {line}")
                return 1
            todo.run()
    except (Refusal, OSError) as fault:
        say(f"error: {fault}")
        return 1
    except KeyboardInterrupt:
        say("stopped; nothing half made is left")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
