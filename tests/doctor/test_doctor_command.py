"""`reame doctor` as a person and as a program call it, with the real small model, measured only briefly."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import psutil
import pytest
from attrs import evolve

from reame.catalog import split_parts
from reame.doctor.profile import Profile, decisive, identity, save
from reame.engine.llama import LlamaOptions
from reame.memory.fingerprint import model_digest
from reame.runtime.profile import profile_for

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model


def doctor(*words: str, cwd: Path, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "reame", "doctor", *words],
        cwd=cwd, stdin=stdin, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    return done


def test_quick_reads_the_machine_only(tmp_path: Path) -> None:
    done = doctor("--quick", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "CPUs" in done.stdout
    assert "threads" in done.stdout
    assert "(estimate)" in done.stdout
    assert "catalogue" in done.stdout


def test_measured_written_and_checked(model_path: Path, tmp_path: Path) -> None:
    """One run: JSON on standard output, the difference on standard error, a file that the daemon accepts."""
    file = tmp_path / "etc" / "mine.toml"
    file.parent.mkdir()
    file.write_text("# mine\n[engine]\nthreads = 64  # too many\nslots = 4\n")
    done = doctor(str(model_path), "--json", "--seconds", "30", "-c", str(file), "--write", "--yes", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["measured"]["model"]["name"] == model_path.stem
    assert told["measured"]["model"]["decode"]
    assert {"machine", "measured", "facts", "findings", "settings", "models"} == set(told)
    text = file.read_text()
    assert text.startswith("# mine\n[engine]\n")
    assert "slots = 4\n" in text
    assert "threads = 64" not in text
    assert "# too many" in text
    assert f'path = "{model_path}"' in text
    assert "+++" in done.stderr
    checked = subprocess.run(
        [sys.executable, "-m", "reame", "config", "check", str(file)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    values = {setting["key"]: setting["value"] for setting in told["settings"]}
    assert "engine.threads" in values


def test_without_a_yes_nothing_is_written(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text("[memory]\ndisk_mb = 1073741824\n")
    words = ("--quick", "-c", str(file), "--write", str(file))
    done = doctor(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert "say --yes to write" in done.stderr
    controller, terminal = pty.openpty()
    try:
        os.write(controller, b"no\n")
        done = doctor(*words, cwd=tmp_path, stdin=terminal)
    finally:
        os.close(terminal)
        os.close(controller)
    assert done.returncode == 0
    assert "the file stays as it is" in done.stderr
    assert file.read_text() == "[memory]\ndisk_mb = 1073741824\n"


def test_a_new_file_has_every_key(tmp_path: Path) -> None:
    done = doctor("--quick", "--set", "memory.disk_mb=1073741824", "--write", "new/reame.toml", "-y", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "new" / "reame.toml").read_text()
    assert "# How llama.cpp computes" in text
    assert "disk_mb = 1073741824" not in text
    again = doctor("--quick", "-c", "new/reame.toml", "--write", "-y", cwd=tmp_path)
    assert "right as it is" in again.stderr


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("nomodel",), 1, "no model is called 'nomodel'"),
        (("/nowhere/m.gguf",), 1, "cannot read the model"),
        (("--seconds", "1"), 2, "--seconds"),
        (("--quick", "--write", "a", "b"), 1, "--write takes one file"),
        (("-c", "missing.toml"), 1, "missing.toml: cannot be read"),
    ],
)
def test_mistakes_are_a_line(tmp_path: Path, words: tuple[str, ...], status: int, said: str) -> None:
    done = doctor(*words, cwd=tmp_path)
    assert done.returncode == status
    assert done.stderr.startswith("reame: ")
    assert said in done.stderr


def test_a_model_that_does_not_run_is_a_finding_beside_the_machine(tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(b"GGUF\x03\0\0\0 and nothing that is a model")
    done = doctor(str(bad), "--seconds", "5", "--write", "out.toml", "--yes", cwd=tmp_path)
    assert done.returncode == 1
    assert "✗  refused:" in done.stdout
    assert "bandwidth" in done.stdout
    assert not (tmp_path / "out.toml").exists(), "what does not work is not written down"


def test_ctrl_c_ends_it_and_its_children(model_path: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "reame", "doctor", str(model_path), "--seconds", "40"]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # the suite may run in a shell's background
    with subprocess.Popen(
        words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard
    ) as running:
        assert running.stderr is not None
        lines = iter(running.stderr)
        assert "trying the model" in next(lines)
        next(lines)  # a fifth of the way: a child measures
        children = psutil.Process(running.pid).children(recursive=True)
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 130
        assert "Traceback" not in "".join(lines)
    assert not [child for child in children if child.is_running()]


def test_the_daemon_finds_the_profile_of_its_model(
    model_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REAME_CACHE", str(tmp_path))
    assert profile_for(model_path) is None
    mine = identity(model_digest(split_parts(model_path), tmp_path), model_path.stem)
    profile = Profile(
        identity=mine, threads=1, prefill_threads=1, step_seconds={1: 0.5}, load_seconds=0, restore_seconds=0,
        options=decisive(LlamaOptions()),
    )  # fmt: skip
    save(tmp_path, evolve(profile, identity=evolve(mine, cpu="another")))
    assert profile_for(model_path) is None
    save(tmp_path, profile)
    assert profile_for(model_path) == profile
