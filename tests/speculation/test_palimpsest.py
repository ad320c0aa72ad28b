"""Merging what followed into the likeliest path, with numbers by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.speculation.palimpsest import HALF_AGE, UNSEEN, Site, likeliest_path

TOKENS = st.lists(st.integers(0, 3), min_size=1, max_size=6).map(tuple)
SITES = st.lists(st.builds(Site, st.integers(3, 64), st.integers(0, 10**7), TOKENS), max_size=12)


def test_nothing_seen_is_no_path() -> None:
    assert likeliest_path([], 8) == ((), ())
    assert likeliest_path([Site(8, 0, (1, 2))], 0) == ((), ())


def test_one_place_is_believed_by_the_length_of_its_match() -> None:
    assert likeliest_path([Site(4, 0, (5, 6))], 8) == ((5, 6), (0.5, 0.5))
    assert likeliest_path([Site(12, 0, (5, 6))], 8) == ((5, 6), (0.9, 0.9))


def test_at_a_fork_the_heavier_branch_is_taken() -> None:
    """16 + 16 against 4 * 4 * 3 = 48 = 32 + 16; the third and fourth agree on the first token only."""
    sites = [Site(4, 0, (1, 2, 3)), Site(4, 0, (1, 2, 4)), Site(4, 0, (1, 5)), Site(4, 0, (9,))]
    tokens, shares = likeliest_path(sites, 8)
    total = UNSEEN + 4 * 16
    assert tokens in ((1, 2, 3), (1, 2, 4))
    assert shares == pytest.approx((48 / total, 32 / total, 16 / total))


def test_a_longer_match_outweighs_several_short_ones() -> None:
    sites = [*[Site(3, 0, (7,))] * 6, Site(8, 0, (1,))]
    assert likeliest_path(sites, 1)[0] == (1,)


def test_age_weighs_less() -> None:
    old, new = Site(4, int(2 * HALF_AGE), (1,)), Site(3, 0, (2,))
    assert likeliest_path([old, new], 1)[0] == (2,)
    assert likeliest_path([Site(4, int(HALF_AGE), (1,))], 1)[1] == pytest.approx((8 / (8 + UNSEEN),))


def test_most_cuts_the_path() -> None:
    assert likeliest_path([Site(4, 0, (1, 2, 3, 4))], 2) == ((1, 2), (0.5, 0.5))


@given(SITES, st.integers(0, 8))
def test_a_path_is_a_beginning_that_was_seen_and_its_probabilities_never_rise(sites: list[Site], most: int) -> None:
    tokens, shares = likeliest_path(sites, most)
    assert len(tokens) == len(shares) <= most
    assert not tokens or any(site.tokens[: len(tokens)] == tokens for site in sites)
    assert all(0 < share < 1 for share in shares)
    assert list(shares) == sorted(shares, reverse=True)
    if sites and most:
        assert tokens
