"""T(rows): a table of what steps cost, and what lies between its entries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.cost import DEFAULT_SECONDS_PER_ROW, StepCost


def measured(*steps: tuple[int, float]) -> StepCost:
    cost = StepCost()
    for rows, seconds in steps:
        cost.observe(rows, seconds)
    return cost


def test_before_any_measurement_a_row_costs_the_careful_default() -> None:
    assert StepCost().seconds(10) == pytest.approx(10 * DEFAULT_SECONDS_PER_ROW)
    assert StepCost().rows_within(0.2, 512) == 40


def test_a_measured_count_costs_what_was_measured() -> None:
    cost = measured((1, 0.02), (64, 0.4))
    assert cost.seconds(1) == pytest.approx(0.02)
    assert cost.seconds(64) == pytest.approx(0.4)


def test_a_count_below_its_edge_is_scaled_to_the_edge_and_back() -> None:
    cost = measured((9, 0.09))  # belongs to edge 10: 0.1 there
    assert cost.seconds(10) == pytest.approx(0.1)
    assert cost.seconds(9) == pytest.approx(0.09)


def test_between_two_measured_edges_the_cost_is_interpolated() -> None:
    cost = measured((4, 0.1), (12, 0.5))
    assert cost.seconds(8) == pytest.approx(0.3)
    assert cost.seconds(6) == pytest.approx(0.2)


def test_beyond_what_was_measured_a_row_costs_as_much_as_at_the_nearest() -> None:
    cost = measured((4, 0.1), (8, 0.16))
    assert cost.seconds(2) == pytest.approx(0.05)
    assert cost.seconds(512) == pytest.approx(10.24)
    assert cost.seconds(4096) == pytest.approx(81.92)


def test_new_measurements_count_a_quarter_of_the_mean() -> None:
    cost = measured((1, 0.1), (1, 0.2))
    assert cost.seconds(1) == pytest.approx(0.125)
    cost.observe(1, 0.225)
    assert cost.seconds(1) == pytest.approx(0.15)


def test_a_step_in_which_the_machine_stood_still_counts_as_one_of_twice_the_time() -> None:
    cost = measured((16, 0.4), (16, 60.0))
    assert cost.seconds(16) == pytest.approx(0.5)
    for _ in range(20):
        cost.observe(16, 4.0)
    assert cost.seconds(16) == pytest.approx(4.0, rel=0.05), "but what has become slow is soon known to be"


def test_rows_within_a_time_are_the_most_that_stay_within_it() -> None:
    cost = measured((1, 0.1), (8, 0.8))
    assert cost.rows_within(0.55, 512) == 5
    assert cost.rows_within(0.55, 3) == 3
    assert cost.rows_within(0.05, 512) == 0
    assert cost.rows_within(1.25, 512) == 12


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 600), st.floats(1e-4, 5.0)), max_size=12),
    st.floats(0.001, 5.0),
    st.integers(1, 600),
)
def test_rows_within_never_exceed_the_time_however_odd_the_table(
    steps: list[tuple[int, float]], seconds: float, limit: int
) -> None:
    cost = measured(*steps)
    rows = cost.rows_within(seconds, limit)
    assert 0 <= rows <= limit
    assert rows == 0 or cost.seconds(rows) <= seconds * 1.000001
    assert rows == limit or cost.seconds(rows + 1) > seconds


def test_a_row_costs_at_most_twice_what_it_does_at_the_next_smaller_measured_count() -> None:
    cost = measured((4, 0.1), (8, 9.9))
    assert cost.seconds(8) == pytest.approx(0.4)
    assert cost.seconds(6) == pytest.approx(0.25)
    assert cost.seconds(16) == pytest.approx(0.8)


def test_what_was_measured_before_is_a_start_and_what_is_measured_wins() -> None:
    cost = StepCost()
    cost.seed({1: 0.1, 8: 0.2})
    assert cost.seconds(8) == pytest.approx(0.2)
    for _ in range(40):
        cost.observe(8, 0.4)
    assert cost.seconds(8) == pytest.approx(0.4, rel=1e-3)
    assert cost.seconds(1) == pytest.approx(0.1)


def test_what_the_disk_took_before_is_a_start_too() -> None:
    """1,000 tokens are computed in a second; from this disk they take 1.5 s, until it turns out to be quick."""
    cost = measured((1000, 1.0))
    assert cost.pays_to_load(1000), "assumed before anything was measured"
    cost.seed_disk(load=1e-3, restore=0.5e-3)
    assert not cost.pays_to_load(1000)
    for _ in range(20):
        cost.observe_load(1000, 0.01)
        cost.observe_restore(1000, 0.01)
    assert cost.pays_to_load(1000)


@pytest.mark.parametrize("stalled", [2, 20, 64, 512])
def test_one_stalled_step_does_not_keep_chunks_small_for_ever(stalled: int) -> None:
    """A row takes 2 ms, but the machine stood still in one step, such as the first after a load from a slow disk."""
    cost = measured((stalled, 30.0), (1, 0.002))
    for _ in range(60):
        rows = max(16, cost.rows_within(0.2, 512))
        cost.observe(rows, 0.002 * rows)
    assert 90 <= cost.rows_within(0.2, 512) <= 100


def test_one_slow_load_does_not_end_loading_for_ever() -> None:
    """Tokens cost a millisecond to compute. A load stood still for seconds, and what is not loaded is not measured."""
    cost = measured((1000, 1.0))
    cost.observe_load(100, 300.0)
    for _ in range(3000):
        cost.observe(1000, 1.0)
    assert cost.pays_to_load(1000)
    for _ in range(200):
        cost.observe_load(1000, 0.001)  # no longer than any load
    for _ in range(20):
        cost.observe_load(1000, 30.0)  # a disk that is that slow indeed
    assert not cost.pays_to_load(1000)


def test_what_any_load_takes_does_not_count_as_the_price_of_its_few_tokens() -> None:
    cost = measured((1000, 0.3))
    for _ in range(50):
        cost.observe_load(16, 0.002)
    assert cost.pays_to_load(1000)
