"""The steps before the first request: what they measure, and that they leave no cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.cost import StepCost
from reame.engine.fake import FakeEngine
from reame.runtime.drafting import draft_prices
from reame.runtime.first_steps import LEAST_MEASURED, MEASURED_ROWS, TOUCH_ROWS, take_first_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.engine.base import Row


class Noting(FakeEngine):
    """Notes the number of rows of each decode."""

    def __init__(self, *, max_rows: int = 64) -> None:
        super().__init__(num_cells=200, num_seqs=2, max_rows=max_rows)
        self.rows: list[int] = []

    def decode(self, rows: Sequence[Row]) -> None:
        self.rows.append(len(rows))
        super().decode(rows)


def test_without_a_profile_all_are_measured_while_there_is_time() -> None:
    engine, cost = Noting(), StepCost()
    take_first_steps(engine, cost)
    assert engine.rows == [TOUCH_ROWS, *MEASURED_ROWS]
    assert engine.length(0) == 0
    assert cost.seconds(64) != StepCost().seconds(64)


def test_with_a_profile_the_least_is_enough() -> None:
    engine, cost = Noting(), StepCost()
    take_first_steps(engine, cost, is_seeded=True)
    assert engine.rows == [TOUCH_ROWS, *MEASURED_ROWS[:LEAST_MEASURED]]
    assert engine.length(0) == 0


def test_a_small_engine_is_not_given_more_rows_than_it_takes() -> None:
    engine = Noting(max_rows=4)
    take_first_steps(engine, StepCost())
    assert max(engine.rows) == 4


def test_a_draft_whose_rows_cost_more_than_steps_do_does_not_pay() -> None:
    cost = StepCost()
    cost.seed({1: 0.1, 4: 0.43, 16: 0.9})
    assert draft_prices(cost) == (
        "4 rows cost 4.3 steps (a draft of 3 does not pay), "
        "16 rows cost 9.0 steps (a draft of 15 pays from 53% of it right)"
    )
