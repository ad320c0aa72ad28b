"""scripts/setup from nothing to done, and then again; run as a person runs it."""

from __future__ import annotations

import os
import platform
import signal
from typing import TYPE_CHECKING

import pytest
from scripts_checkout import Checkout

if TYPE_CHECKING:
    from pathlib import Path


on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="there are no kernels for other machines")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_second_set_up_makes_no_pip_call(checkout: Checkout) -> None:
    code, said = checkout.run("setup")
    assert code == 0, said
    assert "building llama.cpp for this CPU, once: about " in said
    assert "set-up: ready in " in said
    build, wheel, package = checkout.calls()
    assert build.startswith("-v wheel --no-deps --no-cache-dir --no-binary llama-cpp-python ")
    assert wheel.startswith("install --no-index --no-deps --force-reinstall ")
    assert package == "install --editable ."
    assert checkout.run("setup") == (0, "")
    assert checkout.calls() == []


def test_only_what_changed_is_done_again(checkout: Checkout) -> None:
    checkout.run("setup")
    checkout.calls()
    project = checkout.root / "pyproject.toml"
    project.write_text(project.read_text().replace('"trio>=', '"trio!=0.1,>='))
    assert checkout.run("setup")[0] == 0
    assert checkout.calls() == ["install --editable ."]
    assert checkout.run("setup", "--extra", "test")[0] == 0
    assert checkout.calls() == ["install --editable .[test]"]
    assert checkout.run("setup") == (0, "")
    assert checkout.calls() == []


def test_other_flags_are_another_wheel_and_the_first_is_kept(checkout: Checkout) -> None:
    checkout.run("setup")
    [first] = checkout.wheels()
    checkout.calls()
    assert checkout.run("setup", CMAKE_ARGS="-DGGML_BLAS=ON")[0] == 0
    build, wheel, _ = checkout.calls()
    assert " wheel " in build
    assert "--force-reinstall" in wheel
    assert "-DGGML_BLAS=ON" in next(
        log for log in (path.read_text() for path in (checkout.cache / "wheels").glob("*.log")) if "BLAS" in log
    )
    assert len(checkout.wheels()) == 2
    assert checkout.run("setup")[0] == 0
    wheel, package = checkout.calls()
    assert first in wheel
    assert package == "install --editable ."


def test_another_checkout_takes_the_wheel_from_the_cache(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run("setup")
    (tmp_path / "two").mkdir()
    other = Checkout(tmp_path / "two", cache=checkout.cache)
    assert other.run("setup")[0] == 0
    assert [call.split()[0] for call in other.calls()] == ["install", "install"]


def kernel(checkout: Checkout, code: str) -> Path:
    folder = checkout.root / "reame" / "kernels"
    folder.mkdir(parents=True)
    (folder / "exports.map").write_text("{ global: reame_*; local: *; };\n")
    (folder / "one.cpp").write_text(code)
    return folder / "one.cpp"


@on_x86
def test_the_kernels_are_built_and_built_again_when_they_change(checkout: Checkout) -> None:
    source = kernel(checkout, "int reame_one = 1;\n")
    assert "building the matrix kernels" in checkout.run("setup")[1]
    [library] = (checkout.root / ".venv" / "lib").glob("reame-kernels-*.so")
    first = library.read_bytes()
    assert checkout.run("setup") == (0, "")
    source.write_text("int reame_one = 2;\n")
    assert "building the matrix kernels" in checkout.run("setup")[1]
    assert library.read_bytes() != first


@on_x86
def test_kernels_that_do_not_compile_are_a_warning_and_leave_none(checkout: Checkout) -> None:
    kernel(checkout, "int wrong = ;\n")
    code, said = checkout.run("setup")
    assert code == 0
    assert "warning: no matrix kernels, so llama.cpp computes all: " in said
    assert "error: expected primary-expression" in said
    assert not list((checkout.root / ".venv" / "lib").glob("reame-kernels-*"))


def test_a_damaged_wheel_is_built_again_and_what_a_killed_build_left_goes(checkout: Checkout) -> None:
    checkout.run("setup")
    sound = checkout.wheels()
    (checkout.cache / "wheels" / ".building-killed" / "tmp").mkdir(parents=True)
    [wheel] = (checkout.cache / "wheels").glob("*/*.whl")
    wheel.write_bytes(wheel.read_bytes()[:-30])
    (checkout.root / ".venv" / "set-up.json").unlink()
    checkout.calls()
    assert checkout.run("setup")[0] == 0
    assert [" wheel " in call for call in checkout.calls()] == [True, False, False]
    assert checkout.wheels() == sound


def test_two_set_ups_build_once(checkout: Checkout, tmp_path: Path) -> None:
    (tmp_path / "two").mkdir()
    other = Checkout(tmp_path / "two", cache=checkout.cache)
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    first = checkout.start("setup", STUB_BUILD=f"wait {gate}")
    opened = gate.open("w")  # returns when the first one's build waits at the gate
    second = other.start("setup")
    assert second.stderr is not None
    assert any("waiting for another set-up that builds llama.cpp" in line for line in second.stderr)
    opened.close()
    for process in (first, second):
        process.communicate(timeout=120)
        assert process.returncode == 0
    assert [" wheel " in call for call in checkout.calls()] == [True, False, False]
    assert [" wheel " in call for call in other.calls()] == [False, False]


def test_stopping_a_build_ends_it_and_leaves_nothing(checkout: Checkout, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    process = checkout.start("setup", STUB_BUILD=f"wait {gate}")
    with gate.open("w"):
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert said.endswith("set-up: stopped; nothing half made is left\n")
    assert checkout.wheels() == []
    with pytest.raises(OSError, match="No such device"):  # no reader: the build's processes have ended too
        os.open(gate, os.O_WRONLY | os.O_NONBLOCK)


def test_a_moved_checkout_gets_a_new_venv(checkout: Checkout, tmp_path: Path) -> None:
    checkout.run("setup")
    checkout.root = checkout.root.rename(tmp_path / "moved")
    for _ in ("the old one is not kept", "nor is the half of a new one"):
        process = checkout.start("setup")
        assert process.stderr is not None
        assert any(line == f"set-up: making {checkout.root}/.venv\n" for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)
        assert process.returncode == 130
