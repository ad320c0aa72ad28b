"""When threads spin long and when shortly, by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reame.core.spin_choice import BUSY, CALM, PATIENCE, SpinChoice

TABLE = [
    # company, changed, short afterwards
    (0.0, False, False),
    (0.4, False, False),  # short bursts: a long spin is better
    (1.0, True, True),
    (0.1, False, True),
    (0.1, False, True),
    (0.3, False, True),  # neither busy nor calm: the count of calm looks begins anew
    (0.1, False, True),
    (0.1, False, True),
    (0.1, True, False),
    (0.5, True, True),
]


def test_by_hand() -> None:
    choice = SpinChoice()
    for number, (company, changed, is_short) in enumerate(TABLE):
        assert (choice.observe(company), choice.is_short) == (changed, is_short), number


@given(st.lists(st.floats(0, 8)))
def test_busy_is_short_at_once_and_calm_long_in_the_end(looks: list[float]) -> None:
    choice = SpinChoice()
    for company in looks:
        choice.observe(company)
        assert choice.is_short or company < BUSY
    for _ in range(PATIENCE):
        choice.observe(CALM / 2)
    assert not choice.is_short
