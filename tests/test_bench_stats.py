"""The benchmark's arithmetic: ratios of pairs, when one may be printed, what a goal needs, what noise is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lib"))

from bench.noise import Meter, Noise, cpu_seconds, family_seconds, pressure_seconds
from bench.prompts import Prompts
from bench.stats import FEWEST_PAIRS, Goal, Ratio, Summary, compare, judge_ratio, judge_values

RATE = st.floats(0.01, 1e4)


def test_ratio_is_of_pairs_not_of_medians() -> None:
    """The machine slowed down threefold half way, both sides alike: every pair says 1.1, so that is the ratio."""
    theirs = [300.0, 300.0, 100.0, 100.0, 100.0]
    ratio = compare([1.1 * rate for rate in theirs], theirs, "higher")
    assert ratio is not None
    assert (ratio.lowest, ratio.highest) == pytest.approx((1.1, 1.1))
    assert ratio.is_verdict


def test_ratio_of_what_should_be_low() -> None:
    ratio = compare([0.2, 0.25, 0.2], [2.0, 1.0, 1.0], "lower")
    assert ratio == Ratio(5.0, 4.0, 10.0, 3)


def test_verdict_needs_a_spread_within_the_distance_from_one() -> None:
    assert Ratio(1.2, 1.125, 1.25, 3).is_verdict  # a spread of 1.11x, a distance of 1.2x
    assert not Ratio(1.2, 1.0, 1.25, 3).is_verdict  # 1.25x of spread
    assert Ratio(4.0, 2.0, 8.0, 3).is_verdict  # 4x and 4x
    assert Ratio(1 / 4, 1 / 8, 1 / 2, 3).is_verdict  # the same, seen from the other side
    assert not Ratio(4.0, 2.0, 8.1, 3).is_verdict
    assert not Ratio(1.0, 0.99, 1.01, 7).is_verdict
    assert not Ratio(2.0, 2.0, 2.0, FEWEST_PAIRS - 1).is_verdict


@given(st.lists(st.tuples(RATE, RATE), min_size=1, max_size=9))
def test_a_verdict_never_spans_one(pairs: list[tuple[float, float]]) -> None:
    ratio = compare([ours for ours, _ in pairs], [theirs for _, theirs in pairs], "higher")
    assert ratio is not None
    assert ratio.lowest <= ratio.median <= ratio.highest
    if ratio.is_verdict:
        assert ratio.lowest >= 1 - 1e-9 or ratio.highest <= 1 + 1e-9


@given(st.lists(RATE, min_size=1, max_size=9))
def test_the_same_against_itself_is_never_ahead(rates: list[float]) -> None:
    ratio = compare(rates, rates, "higher")
    assert ratio is not None
    assert (ratio.median, ratio.lowest, ratio.highest) == (1.0, 1.0, 1.0)


def test_no_ratio_with_a_zero() -> None:
    assert compare([1.0, 2.0, 3.0], [1.0, 0.0, 3.0], "higher") is None
    assert compare([0.0], [1.0], "lower") is None


def test_summary() -> None:
    assert Summary.of([4.0, 1.0, 3.0, 10.0]) == Summary(3.5, 1.0, 10.0)


@pytest.mark.parametrize(
    ("lowest", "highest", "pairs", "answer"),
    [(0.97, 1.2, 7, "held"), (0.96, 1.2, 7, "open"), (0.9, 0.969, 7, "missed"), (1.0, 1.2, 2, "open")],
)
def test_goal_on_a_ratio(lowest: float, highest: float, pairs: int, answer: str) -> None:
    assert judge_ratio(Goal("ratio", 0.97), Ratio((lowest + highest) / 2, lowest, highest, pairs)) == answer


def test_goal_on_a_value_follows_the_sense_of_the_metric() -> None:
    goal = Goal("value", 0.5)
    assert judge_values(goal, [0.1, 0.2, 0.5], "lower") == "held"
    assert judge_values(goal, [0.1, 0.2, 0.51], "lower") == "open"
    assert judge_values(goal, [0.6, 0.7, 0.51], "lower") == "missed"
    assert judge_values(goal, [0.6, 0.7, 0.51], "higher") == "held"
    assert judge_values(goal, [0.1, 0.1], "lower") == "open"


def test_goal_of_one_model_only() -> None:
    assert Goal("value", 0.5, models="smollm2").counts_for("SmolLM2-135M-Instruct.gguf")
    assert not Goal("value", 0.5, models="smollm2").counts_for("qwen2.5-coder-1.5b.gguf")


def test_cpu_seconds_of_proc_stat() -> None:
    stat = "cpu  1000 100 200 5000 999 30 70 40 7 7\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
    assert cpu_seconds(stat, 100) == (14.0, 0.4)  # user nice system irq softirq; idle and iowait are no work


def test_family_seconds_finds_grandchildren_and_leaves_others_out() -> None:
    def stat(pid: int, name: str, parent: int, *times: int) -> str:
        return f"{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 {' '.join(map(str, times))} 20 0 1 0"

    stats = [
        stat(30, "a (b) c", 20, 1, 2, 4, 8),
        stat(10, "bench", 1, 100, 0, 0, 0),
        stat(20, "server", 10, 1000, 200, 0, 0),
        stat(40, "stranger", 1, 7777, 7777, 0, 0),
    ]
    assert family_seconds(stats, 10, 100) == pytest.approx(13.15)


def test_pressure_of_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    assert pressure_seconds(tmp_path / "cpu") is None
    (tmp_path / "cpu").write_text("some avg10=1.00 avg60=0 avg300=0 total=2500000\nfull avg10=0 total=9\n")
    assert pressure_seconds(tmp_path / "cpu") == 2.5


def test_a_real_meter_reading_is_sane() -> None:
    noise = Meter.now().noise()
    assert noise.others >= 0
    assert noise.seconds > 0


def test_quiet() -> None:
    assert Noise(seconds=1, others=0.05, steal=0.05, client=1.0, pressure=0.9).is_quiet
    assert not Noise(seconds=1, others=0.06, steal=0.05, client=0, pressure=None).is_quiet


@given(st.integers(0, 1 << 31), st.integers(8, 3000))
def test_prompts_repeat_with_their_seed_and_never_else(seed: int, tokens: int) -> None:
    def drawn(round_: int) -> list[str]:
        prompts = Prompts(seed, "decode", round_)
        return [prompts.text(tokens), prompts.text(tokens)]

    first = drawn(0)
    assert first == drawn(0)
    assert len({*first, *drawn(1)}) == 4
    words = first[0].replace(".", " .").split()
    assert tokens - 1 <= len(words) <= tokens
    assert not first[0].endswith(".")
