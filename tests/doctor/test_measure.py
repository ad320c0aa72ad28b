"""The parent of the children: what they tell, how they end, and that all is over in time."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve

from reame.doctor.measure import GivenUp, Plan, candidates, measure
from reame.engine.llama import LlamaOptions
from reame.host.cpu import CpuShare

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.doctor.results import Measured

SHARE = CpuShare(cpus=(0, 1), quota=None, cores=2, fast_cores=None)
COMMAND = (sys.executable, str(Path(__file__).parent / "child_script.py"))


def facts(**values: Any) -> list[dict[str, Any]]:
    """Lines of facts; a dict is a table."""
    return [
        {"fact": name, "key": key, "value": value}
        for name, table in values.items()
        for key, value in (table if isinstance(table, dict) else {"": table}).items()
    ]


END = {"end": True}
GOOD = {
    "host": [{"doing": "memory bandwidth", "share": 0.5}, *facts(bandwidth={1: 1e9, 2: 2e9}, disk_read=3e8), END],
    "model": [
        *facts(load_seconds=1.5, description="sample", size_bytes=10, context_trained=99, faults=0),
        *facts(anon_bytes=7, file_bytes=8, decode={1: 0.2, 2: 0.1}, prefill={1: 0.02, 2: 0.01}, few={1: 0.4, 2: 0.3}),
        *facts(threads=[2, 1], save=1e-5, restore=2e-5, kv_bytes=64, steps={1: 0.1, 8: 0.3}),
        *facts(lossless=[0.0, 0.25, True]),
        {"skipped": "steps of 256 rows and more"},
        END,
    ],
    "variants": [*facts(variant={"f16 cells": [0.3, 0.02, 5]}), END],
    "spin": [*facts(spin={3000: [0.1, 0.2]}), END],
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Measured]:
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):  # the first is set by whoever loaded llama.cpp here before
        monkeypatch.delenv(name, raising=False)

    def go(script: dict[str, Any], **options: Any) -> Measured:
        file = tmp_path / "script.json"
        file.write_text(json.dumps(script))
        monkeypatch.setenv("DOCTOR_SCRIPT", str(file))
        plan = Plan(
            model=tmp_path / "m.gguf", name="m", options=LlamaOptions(threads=2), folder=tmp_path, command=COMMAND
        )
        changes = {key: options.pop(key) for key in ("model", "seconds") if key in options}
        return measure(evolve(plan, **changes), SHARE, **options)

    return go


def orders(tmp_path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (tmp_path / "script.log").read_text().splitlines()]


def test_everything_told_is_in_the_result(run: Callable[..., Measured], tmp_path: Path) -> None:
    shown: list[tuple[float, str]] = []
    found = run(GOOD, on_progress=lambda share, doing: shown.append((share, doing)))
    assert found.bandwidth == {1: 1e9, 2: 2e9}
    assert (found.disk_read, found.disk_write) == (3e8, None)
    assert found.skipped == ("steps of 256 rows and more",)
    assert found.faults == ()
    model = found.model
    assert model is not None
    assert (model.threads, model.prefill_threads, model.load_seconds) == (2, 1, 1.5)
    assert model.steps == {1: 0.1, 8: 0.3}, "row counts are numbers, not texts"
    assert model.lossless is not None
    assert (model.lossless.crowd, model.lossless.same_text) == (0.25, True)
    assert model.variants["f16 cells"].prefill == 0.02
    assert model.spins[3000].beside == 0.2
    assert (pytest.approx(0.53), "memory bandwidth") in shown
    assert [share for share, _ in shown] == sorted(share for share, _ in shown)
    later = [order for order in orders(tmp_path) if order["task"] == "variants"]
    assert (later[0]["options"]["threads"], later[0]["options"]["prefill_threads"]) == (2, 1), "those found best"
    spins = [order["options"]["spin_count"] for order in orders(tmp_path) if order["task"] == "spin"]
    assert spins == [3000, 1000, 0]


def test_without_a_model_only_the_machine_is_measured(run: Callable[..., Measured], tmp_path: Path) -> None:
    found = run(GOOD, model=None)
    assert found.model is None
    assert found.bandwidth
    assert [order["task"] for order in orders(tmp_path)] == ["host"]


def test_a_child_that_dies_is_a_sentence_and_what_it_told_holds(run: Callable[..., Measured]) -> None:
    found = run({**GOOD, "model": [*GOOD["model"][:-2], "die"]})
    assert found.model is not None
    assert found.faults == ("measuring the model died of SIGILL: llama.cpp does not run well here",)


def test_a_model_that_dies_early_is_not_measured_further(run: Callable[..., Measured], tmp_path: Path) -> None:
    found = run({**GOOD, "model": [*GOOD["model"][:3], "die"]})
    assert found.model is None
    assert found.bandwidth, "the machine was measured all the same"
    assert {order["task"] for order in orders(tmp_path)} == {"host", "model"}


def test_a_refusal_and_a_fault_of_ours_are_said(run: Callable[..., Measured]) -> None:
    found = run({**GOOD, "model": [{"refused": "it is an encoder"}], "host": ["trip"]})
    assert found.faults == (
        "measuring the model: it is an encoder",
        "measuring memory and disk ended with status 1: boom: it tripped",
    )


def test_lines_of_others_are_not_minded(run: Callable[..., Measured]) -> None:
    noise = ["ggml says hello", "[]", "{", '{"fact": 1}', "null", '{"doing": 3}']
    found = run({**GOOD, "host": [*noise, *GOOD["host"]]})
    assert found.bandwidth == {1: 1e9, 2: 2e9}
    assert found.faults == ()


def test_a_child_that_hangs_is_stopped_in_time(
    run: Callable[..., Measured], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reame.doctor.measure._LATE_S", 0.2)
    started = time.monotonic()
    found = run({**GOOD, "host": [*GOOD["host"][:2], "hang"]}, seconds=5.0)
    assert "measuring memory and disk, which took too long and was stopped" in found.skipped
    assert found.bandwidth == {1: 1e9}
    assert time.monotonic() - started < 60


def test_whoever_asked_may_give_up(run: Callable[..., Measured]) -> None:
    asked: list[float] = []
    with pytest.raises(GivenUp):
        run(
            {"host": [{"doing": "disk", "share": 0.1}, "hang"]},
            on_progress=lambda share, doing: asked.append(share),
            go_on=lambda: not asked,
        )


def test_a_user_s_own_spinning_is_left_alone(
    run: Callable[..., Measured], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOMP_SPINCOUNT", "77")
    found = run(GOOD)
    assert found.model is not None
    assert found.model.spins == {}


@pytest.mark.parametrize(
    ("share", "configured", "expected"),
    [
        (SHARE, 2, (2, 1)),
        (SHARE, 64, (2, 1)),
        (CpuShare(cpus=(0,), quota=None, cores=1, fast_cores=None), 1, (1,)),
        (CpuShare(cpus=tuple(range(16)), quota=None, cores=8, fast_cores=None), 6, (8, 6, 16, 15, 7, 4)),
        (CpuShare(cpus=tuple(range(12)), quota=None, cores=10, fast_cores=2), 2, (2, 12, 10, 11, 1)),
        (CpuShare(cpus=tuple(range(4)), quota=2.0, cores=4, fast_cores=None), 2, (2, 1)),
        (CpuShare(cpus=tuple(range(8)), quota=1.5, cores=8, fast_cores=None), 1, (2, 1)),
        (CpuShare(cpus=tuple(range(8)), quota=3.5, cores=8, fast_cores=None), 1, (3, 1, 4, 2)),
        (CpuShare(cpus=tuple(range(8)), quota=0.2, cores=8, fast_cores=None), 1, (1,)),
    ],
)
def test_threads_worth_trying_never_exceed_what_is_ours(
    share: CpuShare, configured: int, expected: tuple[int, ...]
) -> None:
    assert candidates(share, configured) == expected
