"""The canary: real children on real and broken files, and small scripts in its place for rarer deaths."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from attrs import evolve
from gguf import GGUFReader, GGUFWriter

from reame.constraint import child
from reame.doctor import measure
from reame.engine import canary
from reame.engine.canary import Verdict, check
from reame.engine.llama import LlamaOptions
from reame.engine.llama_failure import load_failure
from reame.errors import ModelError
from reame.runtime import embeddings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OPTIONS = LlamaOptions(threads=2, prefill_threads=2, num_seqs=16, max_rows=512, own_kernels=False)


class Script:
    """A child that runs `body` with `options` at hand, and remembers how often and with which options it ran."""

    def __init__(self, folder: Path, body: str) -> None:
        self._log = folder / "runs"
        program = folder / "child.py"
        program.write_text(
            "import json, os, signal, sys\n"
            "options = json.loads(sys.argv[2])\n"
            f"print(sys.argv[2], file=open({str(self._log)!r}, 'a'))\n"
            f"{body}\n"
        )
        self.command = [sys.executable, str(program)]

    @property
    def runs(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]


DIES = "if {when}: os.kill(os.getpid(), signal.{name})\nprint('{{}}')"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.mark.parametrize("command", [canary.COMMAND, child.COMMAND, embeddings.COMMAND, measure.COMMAND])
def test_no_child_imports_what_lies_in_the_current_folder(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "json.py").write_text("open('imported', 'w').close()")
    subprocess.run(
        [*command, "no model", "{}"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False,
        timeout=120,
    )  # fmt: skip
    assert not (tmp_path / "imported").exists()


@pytest.mark.model
def test_a_real_model_runs_and_is_not_tried_again(model_path: Path, tmp_path: Path) -> None:
    assert check(model_path, OPTIONS, cache_dir=tmp_path) == Verdict(extra_buffers=True)
    script = Script(tmp_path, "sys.exit(1)")
    assert check(model_path, OPTIONS, cache_dir=tmp_path, command=script.command) == Verdict(extra_buffers=True)


@pytest.mark.model
@pytest.mark.parametrize(
    "changes",
    [{"extra_buffers": False}, {"kv_type": "f16", "flash_attention": False}, {"kv_type": "q4_0", "exact": True}],
)
def test_a_real_model_runs_with_other_settings(model_path: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    options = LlamaOptions(threads=2, **changes)
    assert check(model_path, options, cache_dir=tmp_path).extra_buffers is options.extra_buffers


@pytest.mark.model
def test_a_model_that_computes_nan_is_refused(model_path: Path, tmp_path: Path) -> None:
    poisoned = tmp_path / "nan.gguf"
    shutil.copy(model_path, poisoned)
    reader = GGUFReader(poisoned, "r+")
    next(tensor for tensor in reader.tensors if tensor.name == "output_norm.weight").data[:] = np.nan
    reader.data.flush()
    with pytest.raises(ModelError, match=r"refused: nan\.gguf computes no numbers here"):
        check(poisoned, OPTIONS, cache_dir=tmp_path)


def cut(model_path: Path, path: Path) -> None:
    with model_path.open("rb") as file:
        path.write_bytes(file.read(20_000_000))


def unknown_architecture(_: Path, path: Path) -> None:
    writer = GGUFWriter(path, "frobnicator")
    writer.add_tensor("t", np.zeros((4, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.mark.model
@pytest.mark.parametrize(
    ("make", "says"),
    [
        (cut, "m.gguf is damaged or was not downloaded to its end: delete it and fetch it again"),
        (lambda _, path: path.write_text("<!DOCTYPE html>"), "m.gguf is not a GGUF file; `reame pull` fetches"),
        (lambda _, path: path.touch(), "m.gguf is not a GGUF file"),
        (unknown_architecture, "m.gguf is of a kind that this llama.cpp does not know (architecture: 'frobnicator')"),
        (lambda _, path: path.unlink(missing_ok=True), "m.gguf cannot be read (No such file or directory)"),
    ],
)
def test_a_file_that_is_no_model_is_refused_in_one_line_and_not_kept(
    model_path: Path, tmp_path: Path, make: Callable[[Path, Path], object], says: str
) -> None:
    make(model_path, tmp_path / "m.gguf")
    with pytest.raises(ModelError) as caught:
        check(tmp_path / "m.gguf", OPTIONS, cache_dir=tmp_path / "cache")
    assert str(caught.value).startswith("refused: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("name", ["SIGILL", "SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE"])
def test_a_crash_with_extra_buffers_turns_them_off_and_is_remembered(tmp_path: Path, model: Path, name: str) -> None:
    script = Script(tmp_path, DIES.format(when="options['extra_buffers']", name=name))
    for _ in range(2):
        verdict = check(model, OPTIONS, cache_dir=tmp_path, command=script.command)
        assert not verdict.extra_buffers
        assert f"extra buffers off: llama.cpp dies of {name} here with them" in verdict.reason
    assert [run["extra_buffers"] for run in script.runs] == [True, False]


def test_own_kernels_that_crash_are_left_out_and_nothing_else_is(tmp_path: Path, model: Path) -> None:
    script = Script(tmp_path, DIES.format(when="options['own_kernels']", name="SIGILL"))
    options = evolve(OPTIONS, own_kernels=True)
    for _ in range(2):
        verdict = check(model, options, cache_dir=tmp_path, command=script.command)
        assert (verdict.own_kernels, verdict.extra_buffers) == (False, True)
        assert verdict.reason == "own kernels off: llama.cpp dies of SIGILL here with them and runs without"
    assert len(script.runs) == 2


def test_own_kernels_are_kept_when_the_extra_buffers_crash(tmp_path: Path, model: Path) -> None:
    script = Script(tmp_path, DIES.format(when="options['extra_buffers']", name="SIGILL"))
    verdict = check(model, evolve(OPTIONS, own_kernels=True), cache_dir=tmp_path, command=script.command)
    assert (verdict.own_kernels, verdict.extra_buffers) == (True, False)


def test_too_little_memory_for_extra_buffers_is_tried_anew_next_time(tmp_path: Path, model: Path) -> None:
    script = Script(tmp_path, DIES.format(when="options['extra_buffers']", name="SIGKILL"))
    for _ in range(2):
        assert not check(model, OPTIONS, cache_dir=tmp_path, command=script.command).extra_buffers
    assert len(script.runs) == 4


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("SIGILL", r"an illegal instruction: it was built for another CPU; run \./scripts/setup"),
        ("SIGKILL", r"m\.gguf was killed in its trial, most likely for lack of memory"),
        ("SIGSEGV", r"llama\.cpp dies of SIGSEGV with m\.gguf: fetch"),
    ],
)
def test_a_crash_in_any_case_is_a_refusal(tmp_path: Path, model: Path, name: str, says: str) -> None:
    script = Script(tmp_path, DIES.format(when="True", name=name))
    with pytest.raises(ModelError, match=f"^refused: .*{says}"):
        check(model, OPTIONS, cache_dir=tmp_path / "cache", command=script.command)
    assert len(script.runs) == 2
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("options", [evolve(OPTIONS, extra_buffers=False), evolve(OPTIONS, exact=True)])
def test_without_extra_buffers_there_is_no_second_try(tmp_path: Path, model: Path, options: LlamaOptions) -> None:
    script = Script(tmp_path, DIES.format(when="True", name="SIGSEGV"))
    with pytest.raises(ModelError, match="SIGSEGV"):
        check(model, options, cache_dir=tmp_path, command=script.command)
    assert len(script.runs) == 1


def test_an_assertion_of_ggml_is_quoted_without_the_path_of_who_built_it(tmp_path: Path, model: Path) -> None:
    said = "info\\n/tmp/build/src/llama-context.cpp:22: GGML_ASSERT(a <= b) failed\\nmore"
    script = Script(tmp_path, f"sys.stderr.write('{said}'); sys.stderr.flush(); os.abort()")
    with pytest.raises(
        ModelError, match=r"SIGABRT with m\.gguf \(llama-context\.cpp:22: GGML_ASSERT\(a <= b\) failed\)"
    ):
        check(model, OPTIONS, cache_dir=tmp_path, command=script.command)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_wish_to_stop_is_not_a_crash(tmp_path: Path, model: Path, name: str) -> None:
    script = Script(tmp_path, f"signal.signal(signal.{name}, signal.SIG_DFL)\n" + DIES.format(when="True", name=name))
    with pytest.raises(ModelError, match=f"ended with status -{int(signal.Signals[name])}: no message"):
        check(model, OPTIONS, cache_dir=tmp_path / "cache", command=script.command)
    assert len(script.runs) == 1
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("body", ["", "print('hello')", "print('[1]')", "print(1)", "raise OSError('no libgomp')"])
def test_a_child_that_says_nothing_sensible_is_a_refusal(tmp_path: Path, model: Path, body: str) -> None:
    script = Script(tmp_path, body)
    says = "status 1: OSError: no libgomp" if "raise" in body else "status 0: no message"
    with pytest.raises(ModelError, match=f"refused: the trial of m.gguf ended with {says}"):
        check(model, OPTIONS, cache_dir=tmp_path, command=script.command)


def test_a_child_that_hangs_is_ended(tmp_path: Path, model: Path) -> None:
    script = Script(tmp_path, "signal.pause()")
    with pytest.raises(ModelError, match="gave no token within 1 s"):
        check(model, OPTIONS, cache_dir=tmp_path, command=script.command, timeout=0.6)


def test_a_child_that_cannot_start_is_a_refusal(tmp_path: Path, model: Path) -> None:
    with pytest.raises(ModelError, match="refused: the trial of the model could not start"):
        check(model, OPTIONS, cache_dir=tmp_path, command=[str(tmp_path / "absent")])


def test_the_verdict_holds_for_one_file_cpu_and_setting(tmp_path: Path, model: Path) -> None:
    script = Script(tmp_path, "print('{}')")

    def runs(options: LlamaOptions = OPTIONS, features: tuple[str, ...] = ("avx2", "fma")) -> int:
        before = len(script.runs) if (tmp_path / "runs").exists() else 0
        check(model, options, cache_dir=tmp_path, cpu_features=features, command=script.command)
        return len(script.runs) - before

    assert [runs(), runs(), runs(features=("fma", "avx2"))] == [1, 0, 0]
    assert runs(features=("avx2",)) == 1
    assert runs(LlamaOptions(kv_type="f16")) == 1
    assert runs(LlamaOptions(threads=3)) == 1
    model.write_bytes(b"GGUX")
    assert [runs(), runs()] == [1, 0]


def test_all_parts_of_a_split_model_count(tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(tmp_path, "print('{}')")
    later = tmp_path / "later.gguf"
    monkeypatch.setattr(canary, "_SLOWEST_DISK", 10)
    allowed: list[float] = []
    run = canary._run

    def watched(words: list[str], seconds: float, go_on: Callable[[], bool]) -> subprocess.CompletedProcess[bytes]:
        allowed.append(seconds)
        return run(words, seconds, go_on)

    monkeypatch.setattr(canary, "_run", watched)
    tried = partial(check, model, OPTIONS, cache_dir=tmp_path, parts=(model, later), command=script.command)
    later.write_bytes(bytes(6))
    tried()
    tried()
    assert allowed == [91]  # 10 bytes at 10 bytes a second; then the verdict is kept
    later.write_bytes(bytes(16))
    tried()
    assert allowed == [91, 92]


DAMAGED = [b"", b"{", b"[]", b"{}", b'{"extra_buffers": 1, "own_kernels": true, "reason": ""}', b"\xff"]


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_verdict_is_as_good_as_none(tmp_path: Path, model: Path, damage: bytes) -> None:
    script = Script(tmp_path, "print('{}')")
    check(model, OPTIONS, cache_dir=tmp_path, command=script.command)
    (entry,) = (tmp_path / "canary").iterdir()
    entry.write_bytes(damage)
    for _ in range(2):
        assert check(model, OPTIONS, cache_dir=tmp_path, command=script.command) == Verdict(extra_buffers=True)
    assert len(script.runs) == 2


def test_no_place_to_keep_the_verdict_is_a_warning(
    tmp_path: Path, model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    script = Script(tmp_path, "print('{}')")
    assert check(model, OPTIONS, cache_dir=tmp_path / "file", command=script.command) == Verdict(extra_buffers=True)
    assert "cannot be kept" in caplog.text


def test_the_child_by_hand_tells_its_usage() -> None:
    done = subprocess.run(canary.COMMAND, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: python -m reame.engine.canary MODEL.gguf")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["error loading model: mmap failed: Cannot allocate memory", "failed to load model"], "does not fit into the"),
        (["unable to allocate CPU_REPACK buffer"], "does not fit into the memory that is free"),
        (["error loading model: unknown pre-tokenizer type: 'zz'"], "(tokenizer type: 'zz')"),
        (["failed to open GGUF file 'm' (Permission denied)"], "cannot be opened (Permission denied)"),
        (["w", "error loading model: tensor 'x' not found", "failed to load model"], "loaded: tensor 'x' not found"),
        ([], "could not be loaded: llama.cpp gave no reason"),
    ],
)
def test_the_last_words_of_llama_cpp_become_advice(lines: list[str], says: str) -> None:
    assert says in load_failure("m.gguf", lines)
