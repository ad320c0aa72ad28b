"""Why scripts/setup cannot go on: one clear line each, before anything long; each on a machine doctored that way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripts_checkout import Checkout, customised, only

COMPILE_ERROR = """\
  [17/193] /usr/bin/g++ -Werror=format -o error.o error.cpp
  FAILED: ggml/src/ggml-cpu.dir/ops.cpp.o
  /usr/bin/g++ -o ops.o ops.cpp
  ops.cpp:12:3: error: 'vdotq' was not declared in this scope
  ninja: build stopped: subcommand failed.
  error: subprocess-exited-with-error
ERROR: Failed building wheel for llama-cpp-python
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def refused(said: str) -> str:
    """The one line that says why."""
    errors = [line for line in said.splitlines() if line.startswith("set-up: error: ")]
    assert len(errors) == 1, said
    assert said.endswith(errors[0] + "\n")
    return errors[0]


def test_no_compiler(checkout: Checkout, tmp_path: Path) -> None:
    code, said = checkout.run("setup", PATH=only(tmp_path))
    assert code == 1
    assert "no C compiler" in refused(said)
    assert "apt install build-essential" in said
    assert checkout.calls() == []


def test_no_cxx_compiler(checkout: Checkout, tmp_path: Path) -> None:
    code, said = checkout.run("setup", PATH=only(tmp_path, "gcc"))
    assert code == 1
    assert "no C++ compiler" in refused(said)


def test_a_compiler_that_makes_no_program(checkout: Checkout, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo broken 1\n')
    broken.chmod(0o755)
    code, said = checkout.run("setup", CXX=str(broken))
    assert code == 1
    assert f"`{broken}` cannot build a program" in refused(said)
    assert checkout.calls() == []


def test_no_python_at_all(tmp_path: Path) -> None:
    path = only(tmp_path)
    Path(path, "python3").unlink()
    code, said = Checkout(tmp_path, venv=False).run("setup", PATH=path)
    assert code == 1
    assert "no Python 3.11 or newer" in refused(said)


def test_python_too_old(tmp_path: Path) -> None:
    old = customised(tmp_path, "import sys\nsys.version_info = (3, 10, 9, 'final', 0)\n")
    code, said = Checkout(tmp_path, venv=False).run("setup", PYTHONPATH=old)
    assert code == 1
    assert "no Python 3.11 or newer" in refused(said)
    assert "python3 is Python 3." in said


def test_no_ensurepip(tmp_path: Path) -> None:
    bare = customised(tmp_path, "import sys\nsys.modules['ensurepip'] = None\n")
    code, said = Checkout(tmp_path, venv=False).run("setup", PYTHONPATH=bare)
    assert code == 1
    assert "has no module ensurepip" in refused(said)
    assert "apt install python3-venv" in said


def test_not_enough_disk(checkout: Checkout, tmp_path: Path) -> None:
    usage = "shutil.disk_usage = lambda path, real=shutil.disk_usage: real(path)._replace(free=700_000_000)"
    full = customised(tmp_path, f"import shutil\n{usage}\n")
    code, said = checkout.run("setup", PYTHONPATH=full)
    assert code == 1
    assert f"not enough disk in {checkout.cache}/wheels" in refused(said)
    assert "needs 1.0 GB, 0.7 GB are free" in said
    assert checkout.calls() == []


def test_no_home_directory(checkout: Checkout, tmp_path: Path) -> None:
    del checkout.environ["HOME"], checkout.environ["REAME_CACHE"]
    code, said = checkout.run("setup", XDG_CACHE_HOME=str(checkout.cache.parent / "xdg"))
    assert code == 0, said
    assert (checkout.cache.parent / "xdg" / "reame" / "wheels").is_dir()
    nobody = customised(tmp_path, "import pwd\npwd.getpwuid = {}.__getitem__\n")
    code, said = checkout.run("setup", PYTHONPATH=nobody)
    assert code == 1
    assert "set REAME_CACHE" in refused(said)


def test_a_failed_build_shows_the_fault_and_leaves_no_wheel(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "output").write_text(COMPILE_ERROR)
    code, said = checkout.run("setup", STUB_BUILD=f"fail {tmp_path / 'output'}")
    assert code == 1
    line = refused(said)
    [log] = (checkout.cache / "wheels").glob("*.log")
    assert line.endswith(f"all of it is in {log}")
    assert COMPILE_ERROR.strip() in log.read_text()
    shown = [line for line in said.splitlines() if line.startswith("set-up:     ")]
    assert shown == [
        "set-up:     FAILED: ggml/src/ggml-cpu.dir/ops.cpp.o",
        "set-up:     ops.cpp:12:3: error: 'vdotq' was not declared in this scope",
    ]
    assert checkout.wheels() == []
    assert checkout.run("setup")[0] == 0


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ("g++: fatal error: Killed signal terminated program cc1plus\n", "ran out of memory"),
        ("fatal error: error writing to /tmp/x.s: No space left on device\n", "the disk is full"),
        ("ERROR: No matching distribution found for llama-cpp-python==9\n", "does not offer llama-cpp-python==9"),
    ],
)
def test_known_causes_of_a_failed_build_are_one_line(checkout: Checkout, tmp_path: Path, output: str, why: str) -> None:
    (tmp_path / "output").write_text(output)
    code, said = checkout.run("setup", STUB_BUILD=f"fail {tmp_path / 'output'}")
    assert code == 1
    assert why in refused(said)


def test_no_network_with_the_real_venv_and_pip(tmp_path: Path) -> None:
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": "http://127.0.0.1:9/simple", "PIP_RETRIES": "1"}
    checkout = Checkout(tmp_path, venv=False)
    code, said = checkout.run("setup", **nowhere)
    assert code == 1
    assert "pip cannot reach its package index (Connection refused)" in refused(said)
    assert len(said.splitlines()) == 4
    assert (checkout.root / ".venv" / "bin" / "pip").exists()
