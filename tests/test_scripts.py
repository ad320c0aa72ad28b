"""The scripts on top of scripts/setup: what they run, what they say at the end, and their exit codes."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import TYPE_CHECKING

import pytest
from scripts_checkout import ROOT, Checkout

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def served(checkout: Checkout, *arguments: str, model: str = "tiny") -> list[str]:
    """What is called where the configuration, with these arguments, names this model."""
    code, said = checkout.run("serve", *arguments, STUB_CONFIG=json.dumps({"config": {"model": {"path": model}}}))
    assert code == 0, said
    return [call for call in checkout.calls() if call.startswith("reame ")]


def test_serve_pulls_a_name_and_takes_a_path_as_it_is(checkout: Checkout) -> None:
    assert served(checkout) == ["reame config show --json", "reame pull tiny", "reame serve"]
    options = "--set model.path=olmoe"
    assert served(checkout, "olmoe", model="olmoe") == [
        f"reame config show --json {options}", "reame pull olmoe", f"reame serve {options}"
    ]  # fmt: skip
    options = "--set model.path=my models/a.gguf --set server.port=9"
    assert served(checkout, "my models/a.gguf", "--set", "server.port=9", model="my models/a.gguf") == [
        f"reame config show --json {options}", f"reame serve {options}"
    ]  # fmt: skip


def test_serve_pulls_what_its_options_name_and_shows_the_licence(checkout: Checkout, tmp_path: Path) -> None:
    """`reame config show` is the real one."""
    checkout.run("setup")
    tool = checkout.root / ".venv" / "bin" / "reame"
    tool.write_text(
        f'#!/bin/sh\n[ "$1" != config ] || exec "{sys.executable}" -m reame "$@"\n'
        'echo "reame $*" >>"$STUB_CALLS"\necho "its licence: strict"\n'
    )
    (tmp_path / "my.toml").write_text("[model]\npath = 'mine'\n")
    for options in (["-c", f"{tmp_path}/my.toml"], ["--set", "server.port=9", "--set", "model.path=mine"]):
        checkout.calls()
        assert checkout.run("serve", *options) == (0, "its licence: strict\n")
        assert checkout.calls() == ["reame pull mine", f"reame serve {' '.join(options)}"]


def stub_tools(checkout: Checkout, **codes: int) -> None:
    """Tools of .venv that print their name and arguments and exit with these codes."""
    for name, code in codes.items():
        tool = checkout.root / ".venv" / "bin" / name
        tool.write_text(f'#!/bin/sh\necho "{name}: $*"\nexit {code}\n')
        tool.chmod(0o755)
    clients = checkout.root / "scripts" / "clients"
    clients.write_text(f'#!/bin/sh\necho "clients: $*"\nexit {codes.get("clients", 0)}\n')


TOOLS = ("ruff", "mypy", "reame", "clients", "pytest")
STAGES = ("ruff", "mypy", "model", "clients", "pytest")


@pytest.mark.parametrize("failing", [None, *TOOLS])
def test_test_runs_every_stage_and_fails_when_one_did(checkout: Checkout, failing: str | None) -> None:
    checkout.run("setup", "--extra", "test")
    stub_tools(checkout, **{name: 3 if name == failing else 0 for name in TOOLS})
    process = checkout.start("test", "-k", "one or two")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == (0 if failing is None else 1)
    lines = [line for line in out.splitlines() if re.match(r"(ruff|mypy|reame|clients|pytest): ", line)]
    assert lines[:-1] == ["ruff: check .", "mypy: ", "reame: pull smollm2-135m", "clients: "]
    assert re.fullmatch(r"pytest: -n 2 .*-k one or two", lines[-1]), "the caller's arguments come last, and win"
    stages = [result.split()[:2] for result in out.splitlines()[-1].removeprefix("== ").split(" | ")]
    stage = {"reame": "model"}.get(failing or "", failing)
    assert stages == [[name, "FAILED" if name == stage else "ok"] for name in STAGES]


def test_ci_runs_exactly_the_test_script() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-1] == "exec ./scripts/test"
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_drill_runs_all_and_says_what_each_gave(checkout: Checkout) -> None:
    folder = checkout.root / "tests" / "drill"
    folder.mkdir(parents=True)
    for name, code in {"bad": "raise SystemExit(4)", "good": "print('24 of 24')", "_shared": "1 / 0"}.items():
        (folder / f"{name}.py").write_text(code)
    process = checkout.start("drill")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 1
    assert re.findall(r"^== (\w+: .*) in \d+ s$", out, re.MULTILINE) == ["bad: FAILED (4)", "good: held"]
    assert checkout.run("drill", "good")[0] == 0
    unknown = "drill: error: there is no tests/drill/other.py; there are: bad good\n"
    assert checkout.run("drill", "other") == (2, unknown)
