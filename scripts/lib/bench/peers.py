"""llama-server and llama-bench from the llama.cpp sources inside the llama-cpp-python that Reame runs on, same flags.

    <cache>/peers/<key>/        llama-server, llama-bench and recipe.json; the key is that of the wheel (scripts/lib)
    <cache>/peers/<key>.log     what the build printed

A fair peer differs from Reame's engine in nothing that shapes machine code: the same sources, compiler and flags. Its
web page and HTTPS are left out, which no measurement touches.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

import llama_wheel
import pip_call
from console import LiveLine, Refusal, duration, say
from recipe import Recipe, recipe_for
from set_up import cache_folder, read_cpuinfo

from bench.errors import BenchError

BINARIES = ("llama-server", "llama-bench")
DOING = "building llama-server"
CMAKE = (
    *("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF"),
    *("-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF"),
)


def obtain() -> Path:
    """The directory that holds `BINARIES`, found or built (minutes). Raises BenchError when they cannot be built."""
    try:
        recipe = recipe_for(version(llama_wheel.PACKAGE), os.environ, cpuinfo=read_cpuinfo())
        peers = cache_folder(os.environ) / "peers"
        peers.mkdir(parents=True, exist_ok=True)
        with llama_wheel.locked(peers, "builds llama-server"):
            place = peers / recipe.key
            if not all((place / name).exists() for name in BINARIES):
                if obstacles := llama_wheel.obstacles(recipe, peers):
                    raise BenchError("; ".join(obstacles))
                with tempfile.TemporaryDirectory(prefix=".building-", dir=peers) as scratch:
                    build(recipe, place, Path(scratch))
            return place
    except (Refusal, OSError) as fault:
        raise BenchError(str(fault)) from fault


def build(recipe: Recipe, place: Path, scratch: Path) -> None:
    """Fetches sources and build tools with pip, builds in `scratch`, and renames the result to `place`."""
    log = place.with_name(f"{place.name}.log")
    log.unlink(missing_ok=True)
    say(f"{DOING} and llama-bench, once (log: {log})")
    started = time.monotonic()
    sources = fetch_sources(recipe, scratch, log)
    env = tools(scratch, log) | {"CC": recipe.c, "CXX": recipe.cxx}
    tree, out = scratch / "tree", scratch / "out"
    configure = ["cmake", "-S", str(sources), "-B", str(tree), *CMAKE, *shlex.split(recipe.cmake_args)]
    run(configure, log=log, env=env)
    jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or llama_wheel.build_jobs()
    run(["cmake", "--build", str(tree), "--parallel", str(jobs), "--target", *BINARIES], log=log, env=env)
    out.mkdir()
    for name in BINARIES:
        shutil.copy2(tree / "bin" / name, out)
    (out / "recipe.json").write_text(recipe.as_json() + "\n")
    shutil.rmtree(place, ignore_errors=True)
    out.rename(place)
    say(f"llama-server and llama-bench built in {duration(time.monotonic() - started)}, kept in {place}")


def fetch_sources(recipe: Recipe, scratch: Path, log: Path) -> Path:
    """llama.cpp's tree as it lies in the source distribution of the installed llama-cpp-python."""
    what = f"{llama_wheel.PACKAGE}=={recipe.version}"
    pip(["download", "--no-deps", "--no-binary", llama_wheel.PACKAGE, "--dest", str(scratch), what], scratch, log)
    archive = next(scratch.glob("*.tar.gz"))
    run(["tar", "-xzf", str(archive), "-C", str(scratch)], log=log, env=dict(os.environ))
    return next(scratch.glob("*/vendor/llama.cpp"))


def tools(scratch: Path, log: Path) -> dict[str, str]:
    """An environment in which `cmake` and `ninja` are there, as wheels in `scratch`: nothing needs to be installed."""
    folder = scratch / "tools"
    pip(["install", "--target", str(folder), "cmake", "ninja"], scratch, log)
    return {**os.environ, "PYTHONPATH": str(folder), "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def pip(arguments: list[str], scratch: Path, log: Path) -> None:
    doing = f"{DOING}: pip {arguments[0]}"
    own = log.with_suffix(".pip.log")
    pip_call.call(
        Path(sys.executable),
        arguments,
        log=own,
        doing=doing,
        status=lambda _line: None,
        cwd=scratch,
        environ=os.environ,
    )
    own.unlink()


def run(command: list[str], *, log: Path, env: dict[str, str]) -> None:
    """Run a build step with its output in `log` and its progress on standard error; BenchError when it fails."""
    status, text, live = llama_wheel.build_status(time.monotonic), DOING, LiveLine()
    with (
        log.open("a") as kept,
        subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0) as step,
    ):
        assert step.stdout is not None
        try:
            for line in pip_call.lines_with_ticks(step.stdout, tick=1.0):
                kept.write("" if line is None else line + "\n")
                text = (status(line) if line else None) or text
                live.show(text)
        except BaseException:
            os.killpg(step.pid, signal.SIGTERM)  # the compilers too
            raise
        finally:
            live.clear()
    if step.returncode:
        raise BenchError(f"{DOING} failed at `{command[0]}`, see {log}")
