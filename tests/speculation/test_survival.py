"""The survival table: beliefs before anything was measured, and what measurements make of them."""

from __future__ import annotations

import pytest

from reame.speculation.survival import LEAST, MEMORY, Guess, Survival, match_kind


def guess(length: int = 3, *, source: str = "prompt", kind: int = 0, prior: float = 0.5) -> Guess:
    return Guess(source, tuple(range(length)), [kind] * length, prior)


def survivals(table: Survival, of: Guess) -> tuple[float, ...]:
    draft = table.draft(of)
    return draft.survivals if draft else ()


def test_before_anything_was_measured_the_prior_holds() -> None:
    assert survivals(Survival(), guess()) == pytest.approx((0.5, 0.25, 0.125))


def test_what_came_true_counts_against_four_tokens_of_prior() -> None:
    table = Survival()
    for _ in range(6):
        table.learn(guess(), 0, 1, failed=True)  # the first token right, the second wrong
    belief = (0.5 + (6 + 2) / (12 + 4)) / 2  # half of the twelve tokens of this kind came true
    first = (6 + 4 * belief) / (6 + 4)
    second = (0 + 4 * belief) / (6 + 4)
    assert survivals(table, guess()) == pytest.approx((first, first * second, first * second * belief))


def test_what_came_true_at_some_places_is_believed_of_the_others_half_way() -> None:
    """One draft of 16 tokens that came true: (16 + 2) / (16 + 4) of the kind, and 0.5 was believed before."""
    table = Survival()
    table.learn(guess(16), 0, 16, failed=False)
    shares = survivals(table, guess(32))
    assert shares[16] / shares[15] == pytest.approx((0.9 + 0.5) / 2)
    assert shares[0] == pytest.approx((1 + 4 * 0.7) / 5)


def test_sources_kinds_and_places_do_not_mix() -> None:
    table = Survival()
    for _ in range(50):
        table.learn(guess(), 0, 0, failed=True)
    assert survivals(table, guess(source="palimpsest"))[0] == 0.5
    assert survivals(table, guess(kind=1))[0] == 0.5
    table.learn(guess(20), 8, 16 - 8, failed=False)
    believed = (0.5 + (8 + 2) / (58 + 4)) / 2
    assert survivals(table, guess(1)) == pytest.approx((4 * believed / 54,))


def test_a_draft_ends_where_hardly_anything_survives() -> None:
    draft = Survival().draft(guess(40))
    assert draft is not None
    assert min(draft.survivals) >= LEAST > min(draft.survivals) / 2
    table = Survival()
    for _ in range(300):
        table.learn(guess(), 0, 0, failed=True)
    assert table.draft(guess()) is None


def test_old_experience_fades() -> None:
    table = Survival()
    for _ in range(int(MEMORY)):
        table.learn(guess(1), 0, 0, failed=True)
    for _ in range(int(2 * MEMORY)):
        table.learn(guess(1), 0, 1, failed=False)
    assert survivals(table, guess(1))[0] > 0.75


def test_the_kind_of_a_match_is_the_last_edge_it_reaches() -> None:
    assert [match_kind(n) for n in (2, 3, 4, 5, 6, 8, 9, 15, 16, 31, 32, 64)] == [0, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6]
