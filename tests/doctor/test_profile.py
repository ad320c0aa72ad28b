"""Profiles on disk: kept for exactly one CPU, model and build; anything else is a line in the log."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from attrs import evolve

from reame.config import Config
from reame.config_load import override
from reame.core.cost import StepCost
from reame.doctor.profile import Identity, Profile, decisive, exist, identity, load, save
from reame.engine.llama import LlamaOptions
from reame.host.cpu import CpuShare
from reame.runtime.model import measured_threads, options_for
from reame.runtime.profile import seed

if TYPE_CHECKING:
    from pathlib import Path

OPTIONS = LlamaOptions(threads=2, prefill_threads=2)
HERE = Identity(cpu="Zen a1", model="ab" * 32, build="0.3.36 1", name="sample")
PROFILE = Profile(
    identity=HERE,
    threads=2,
    prefill_threads=2,
    step_seconds={1: 0.08, 8: 0.2},
    load_seconds=1.5e-5,
    restore_seconds=5e-6,
    options=decisive(OPTIONS),
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    assert not exist(tmp_path)
    save(tmp_path, PROFILE)
    assert exist(tmp_path)
    assert load(tmp_path, HERE) == PROFILE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cpu": "Zen b2"}, "another CPU"),
        ({"model": "cd" * 32}, "another content of the file"),
        ({"build": "0.3.37 1"}, "another build of llama.cpp"),
        ({"cpu": "Zen b2", "build": "0.3.37 1"}, "another CPU and build of llama.cpp"),
    ],
)
def test_a_stale_one_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: dict[str, str], words: str
) -> None:
    save(tmp_path, PROFILE)
    assert load(tmp_path, evolve(HERE, **change)) is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert words in record.message
    assert "reame doctor --write" in record.message


def test_another_model_s_profile_is_no_news(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    save(tmp_path, PROFILE)
    assert load(tmp_path, evolve(HERE, model="cd" * 32, name="other")) is None
    assert not caplog.records


def test_the_right_one_is_found_among_stale_ones(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for cpu in ("Zen b2", HERE.cpu, "Zen c3"):
        save(tmp_path, evolve(PROFILE, identity=evolve(HERE, cpu=cpu)))
    assert load(tmp_path, HERE) == PROFILE
    assert not caplog.records


@pytest.mark.parametrize(
    "damage",
    [
        {"format": 2},
        {"step_seconds": {"1": -1}},
        {"step_seconds": {"1": "NaN"}},
        {"step_seconds": {"0": 1}},
        {"step_seconds": []},
        {"threads": "2"},
        {"threads": 0},
        {"identity": 3},
        {"surplus": 1},
        {"load_seconds": None},
    ],
)
def test_a_damaged_one_is_ignored_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: dict[str, object]
) -> None:
    file = save(tmp_path, PROFILE)
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    assert load(tmp_path, HERE) is None
    assert "cannot be read" in caplog.text
    for text in ("", "[]", "\0", file.read_text()[:50]):
        file.write_text(text)
        assert load(tmp_path, HERE) is None


def test_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reame.doctor.profile._MOST", 3)
    for i in range(5):
        save(tmp_path, evolve(PROFILE, identity=evolve(HERE, cpu=f"Zen {i}")))
    assert len(list((tmp_path / "doctor").iterdir())) == 3
    assert load(tmp_path, evolve(HERE, cpu="Zen 4")) is not None


def test_this_machine_has_a_name() -> None:
    mine = identity(b"\1" * 32, "sample")
    assert mine == identity(b"\1" * 32, "sample")
    assert mine.key != identity(b"\2" * 32, "sample").key
    assert mine.cpu.strip()
    assert mine.build[0].isdigit()


def test_it_seeds_the_cost_of_steps_measured_with_these_settings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    cost = StepCost()
    assert seed(cost, PROFILE, OPTIONS)
    assert cost.seconds(1) == pytest.approx(0.08)
    assert cost.seconds(8) == pytest.approx(0.2)
    other, untouched = StepCost(), StepCost()
    assert not seed(other, PROFILE, evolve(OPTIONS, kv_type="f16"))
    assert not seed(other, None, OPTIONS)
    assert other.seconds(8) == untouched.seconds(8)
    assert "other settings" in caplog.text


def test_it_seeds_what_blocks_from_the_disk_cost() -> None:
    slow, unknown = StepCost(), StepCost()
    assert slow.pays_to_load(1000)
    assert seed(slow, evolve(PROFILE, load_seconds=0.2, restore_seconds=0.1), OPTIONS)
    assert not slow.pays_to_load(1000), "200 s against 25"
    assert seed(unknown, evolve(PROFILE, step_seconds={1: 1e-6}, load_seconds=0.0, restore_seconds=0.0), OPTIONS)
    assert not unknown.pays_to_load(1000), "not measured is not free"


def test_its_threads_count_while_the_machine_gives_them() -> None:
    whole = CpuShare(cpus=(0, 1, 2, 3), quota=None, cores=4, fast_cores=None)
    assert measured_threads(PROFILE, whole).value == 2
    assert "doctor" in measured_threads(PROFILE, whole).reason
    less = evolve(whole, quota=1.0)
    assert measured_threads(PROFILE, less).value == 1, "the quota came after the measurement"


def test_a_model_of_short_texts_gets_cells_for_two_of_them() -> None:
    """A 4 GB box can hold what it was made for, not 16,000 tokens of a model of 2,048."""
    few = override(Config(), {"engine.context": 1000})
    assert [options_for(Config(), trained=trained).num_cells for trained in (0, 2048, 8192, 32768)] == [
        16384, 4096, 16384, 16384,
    ]  # fmt: skip
    assert options_for(few, trained=2048).num_cells == 2000
    assert options_for(override(Config(), {"engine.cells": 9000}), trained=2048).num_cells == 9000


def test_the_engine_s_threads_come_from_it_unless_the_config_says_otherwise() -> None:
    one = evolve(PROFILE, threads=1, prefill_threads=1)
    assert (options_for(Config(), one).threads, options_for(Config(), one).prefill_threads) == (1, 1)
    chosen = override(Config(), {"engine.threads": 3})
    assert (options_for(chosen, one).threads, options_for(chosen, one).prefill_threads) == (3, 3)
