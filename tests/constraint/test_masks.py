"""What a constraint does to logits, and what is kept so that it is done quickly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reame.constraint.tokens import MAX_KNOWN_CHARS, Cutter
from reame.engine.llama import forbid

if TYPE_CHECKING:
    from reame.constraint.tokens import Tokens


@pytest.mark.parametrize("share", [0.0, 0.01, 0.49, 0.51, 0.99, 1.0])
def test_what_is_not_allowed_is_impossible_and_the_rest_is_as_it_was(share: float) -> None:
    random = np.random.default_rng(7)
    logits = random.normal(size=1001).astype(np.float32)
    allowed = random.random(1001) < share
    masked = logits.copy()
    forbid(masked, allowed)
    assert np.array_equal(masked[allowed], logits[allowed])
    assert np.all(np.isneginf(masked[~allowed]))


def test_the_ends_are_the_same_as_a_mask_and_as_ids(tokens: Tokens) -> None:
    assert tokens.end_ids.tolist() == [token for token in range(tokens.size) if tokens.ends[token]]


class Letters:
    """A vocabulary of one token a letter, which counts how often it is asked."""

    asked = 0

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        self.asked += 1
        return [ord(letter) for letter in text]

    def piece(self, token: int) -> bytes:
        return chr(token).encode()


def test_a_text_is_cut_once_unless_it_is_long() -> None:
    letters = Letters()
    cut = Cutter(letters, tuple(chr(code).encode() for code in range(128)))
    first = cut('","name":"')
    first.append(0)  # the caller's own
    assert cut('","name":"') == [ord(letter) for letter in '","name":"']
    assert letters.asked == 1
    for _ in range(2):
        assert len(cut("x" * (MAX_KNOWN_CHARS + 1))) == MAX_KNOWN_CHARS + 1
    assert letters.asked == 3
