"""The arithmetic of the outlook, with numbers worked by hand."""

from __future__ import annotations

import pytest
from attrs import evolve
from samples import SAMPLE, STEPS, with_model

from reame.catalog import entry
from reame.doctor.outlook import (
    breakeven_prefix,
    cheapest_draft,
    draft_breakeven,
    fits,
    load_seconds,
    seconds,
    users,
)
from reame.doctor.results import best_threads


def test_steps_between_measured_counts_lie_on_the_line() -> None:
    assert seconds(STEPS, 8) == 0.20
    assert seconds(STEPS, 12) == pytest.approx(0.26)
    assert seconds(STEPS, 512) == pytest.approx(6.4)
    assert seconds({4: 0.1}, 1) == 0.1


def test_users_are_as_many_as_read_along() -> None:
    assert users(STEPS, most=64) == 8, "T(8) is 200 ms: five tokens a second"
    assert users(STEPS, most=4) == 4
    assert users({1: 0.3}, most=64) == 0


def test_a_draft_pays_when_enough_of_it_is_right() -> None:
    assert draft_breakeven({1: 1.0, 2: 1.5}, 1) == pytest.approx(0.5)
    assert draft_breakeven({1: 1.0, 2: 2.0}, 1) is None, "two rows cost as much as two steps"
    assert draft_breakeven({1: 1.0, 2: 1.0}, 1) == pytest.approx(0.0, abs=1e-6)
    assert cheapest_draft({1: 1.0, 2: 2.0, 4: 2.0, 8: 8.0}) == (3, 2.0)


def test_a_prefix_from_the_disk_pays_from_some_length_on() -> None:
    assert load_seconds(SAMPLE) == pytest.approx(5e-6 + 10e-6)
    assert breakeven_prefix(SAMPLE) == 1, "a token computed takes 12.5 ms, finding any block 2 ms"
    quick = with_model(prefill={2: 0.0005})
    assert breakeven_prefix(quick) == 1 + 4, "2 ms / (0.5 ms - 0.015 ms)"
    assert breakeven_prefix(with_model(prefill={2: 10e-6})) is None
    assert breakeven_prefix(with_model(restore=None)) is None


def test_other_models_are_between_the_measured_one_and_the_memory() -> None:
    known = entry("qwen2.5-3b")
    assert known is not None
    (fit,) = fits([known], SAMPLE, ram=8_000_000_000)
    assert fit.fits
    assert fit.least == pytest.approx(1e9 / 0.08 / known.size), "in proportion: 12.5 GB/s"
    assert fit.most == pytest.approx(20e9 / known.size)
    (small,) = fits([known], evolve(SAMPLE, model=None), ram=1_000_000_000)
    assert (small.fits, small.least) == (False, pytest.approx(10e9 / known.size))
    (unknown,) = fits([known], None, ram=8_000_000_000)
    assert (unknown.fits, unknown.least, unknown.most) == (True, None, None)


def test_a_mixture_of_experts_reads_its_active_part() -> None:
    known = entry("qwen3-30b-a3b")
    assert known is not None
    (fit,) = fits([known], SAMPLE, ram=64_000_000_000)
    assert fit.most == pytest.approx(20e9 / known.size * 10)


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ({1: 2.0, 2: 1.0}, 2),
        ({1: 2.0, 2: 1.0, 3: 0.99}, 2),
        ({4: 1.0, 8: 0.9}, 8),
        ({1: 1.0}, 1),
    ],
)
def test_a_thread_more_must_be_worth_it(times: dict[int, float], best: int) -> None:
    assert best_threads(times) == best
