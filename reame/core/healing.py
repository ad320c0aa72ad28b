"""Token healing: a prompt that ends inside a word is cut into tokens as the whole word would not be. Pure.

The model has never seen `pri` `nt`, so after `pri` it does not say `nt`. Therefore the last tokens of such a prompt are
taken back, and the first tokens drawn must spell what they spelled: `print` is then drawn as the one token that it is.
Nothing but the last tokens changes, and what they spelled is never told again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from numpy.typing import NDArray

MOST_TAKEN_BACK = 3
"""Tokens; what lies further back is hardly ever part of the word."""


class Pieces:
    """All tokens of a vocabulary in the order of their bytes; read-only once it is built."""

    def __init__(self, piece: Callable[[int], bytes], num_tokens: int, *, ends: Container[int] = ()) -> None:
        """`ends`: tokens that end a generation, which stand for no text."""
        self._pieces = [b"" if token in ends else piece(token) for token in range(num_tokens)]
        order = sorted(range(num_tokens), key=self._pieces.__getitem__)
        self._sorted = [self._pieces[token] for token in order]
        self._order = np.array(order)

    def take_back(self, tokens: Sequence[int]) -> tuple[int, bytes]:
        """How many tokens from the end of `tokens` are part of a longer token, and what they spell; (0, b"") when the
        text ends where a token would end anyway. Control tokens are never taken back."""
        number, text, spelled = 0, b"", b""
        for back, token in enumerate(reversed(tokens[-MOST_TAKEN_BACK:]), 1):
            piece = self._pieces[token]
            if not piece:
                break
            spelled = piece + spelled
            if self._is_part(spelled):
                number, text = back, spelled
        return number, text

    def beginning(self, rest: bytes) -> NDArray[Any]:
        """One bool a token: whether it is the beginning of `rest`, or goes on behind it. `rest` is not empty."""
        allowed = np.zeros(len(self._pieces), bool)
        allowed[self._order[bisect_left(self._sorted, rest) : self._after(rest)]] = True
        for length in range(1, len(rest)):
            short = rest[:length]
            allowed[self._order[bisect_left(self._sorted, short) : bisect_right(self._sorted, short)]] = True
        return allowed

    def _is_part(self, text: bytes) -> bool:
        return bisect_right(self._sorted, text) < self._after(text)

    def _after(self, text: bytes) -> int:
        """Where the tokens end that begin with `text`."""
        return bisect_left(self._sorted, text + b"\xff" * 8)


class Healing:
    """Follows one answer until the bytes taken back are spelled again."""

    def __init__(self, pieces: Pieces, rest: bytes) -> None:
        self._pieces = pieces
        self._rest = rest

    @property
    def is_over(self) -> bool:
        return not self._rest

    def mask(self) -> NDArray[Any]:
        """One bool a token: whether it may come next. Until it is over the answer cannot end."""
        return self._pieces.beginning(self._rest)

    def consume(self, piece: bytes) -> None:
        self._rest = self._rest[len(piece) :]
