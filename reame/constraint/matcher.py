"""Follows one answer under its constraint; see `core.constraint.Matcher`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llguidance import LLMatcher
    from numpy.typing import NDArray

    from reame.constraint.tokens import Tokens


class GrammarMatcher:
    """Owns `inner`, at its start. What it gives depends on the consumed tokens only, not on what else was asked.

    `mask`, `consume` and `forced` raise RequestError when the answer has become too ambiguous to follow within
    llguidance's limits (about 20 ms a token): that ends this request, and no other.
    """

    def __init__(self, inner: LLMatcher, tokens: Tokens) -> None:
        self._inner = inner
        self._tokens = tokens
        self._bits = np.zeros(4 * -(-tokens.size // 32), np.uint8)
        self._run: tuple[int, ...] = ()

    @property
    def is_over(self) -> bool:
        return self._inner.is_stopped()

    @property
    def may_end(self) -> bool:
        """The answer is complete, and could go on."""
        return self._inner.is_accepting()

    def mask(self) -> NDArray[np.bool_]:
        if self.is_over:
            return self._tokens.ends.copy()
        self._inner.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.size)
        self._check()
        mask = np.unpackbits(self._bits, count=self._tokens.size, bitorder="little").view(np.bool_)
        mask[self._tokens.end_ids] = self.may_end
        return mask

    def consume(self, token: int) -> None:
        self._run = self._run[1:] if token in self._run[:1] else ()
        self._inner.consume_token(token)
        self._check()

    def forced(self) -> tuple[int, ...]:
        """A run of tokens stays as it was cut, also when it is consumed by and by."""
        if not self._run and not self.is_over:
            self._run = tuple(self._inner.compute_ff_tokens())
            self._check()
        return self._run

    def guess(self) -> tuple[int, ...]:
        if self.is_over:
            return ()
        forced = self._run or tuple(self._inner.compute_ff_tokens())
        known = len(self._tokens.tokenizer.decode_bytes(list(forced)))
        certain = self._inner.compute_ff_bytes()[known:]
        return tuple(self._tokens.cut(certain.decode("utf-8", "ignore"))) if certain else ()

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        known = next((i for i, token in enumerate(tokens) if token >= self._tokens.size), len(tokens))
        return 0 if self._inner.is_stopped() else self._inner.validate_tokens(list(tokens[:known]))

    def _check(self) -> None:
        if self._inner.is_error():
            raise RequestError(
                "the answer can no longer be held to its constraint, which is too complex; make it simpler",
                code="constraint_too_complex",
            )
