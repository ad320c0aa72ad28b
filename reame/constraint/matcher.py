"""Follows one answer under its constraint; see `core.constraint.Matcher`."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from llguidance import LLMatcher

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from reame.constraint.tokens import Tokens

T = TypeVar("T")

TRIED = (4, 16)
"""Tokens of a draft that are looked at first. llguidance looks at a draft without any limit, and the time grows with
the cube of its bytes where a grammar is ambiguous."""
LEXER = "lexer error"
"""llguidance's words where the lexer is at fault."""
PATIENCE_S = 0.001
"""A draft that has taken so long is looked at no further."""


class GrammarMatcher:
    """Owns `inner`, at its start. What it gives depends on the consumed tokens only, not on what else was asked, nor on
    other answers: when these have filled the lexer that it shares with them it goes on with one of its own (`renewed`).

    `is_over`, `mask`, `consume` and `forced` raise RequestError when the answer has become too ambiguous to follow
    within llguidance's limits (about 20 ms a token): that ends this request, and no other.
    """

    def __init__(self, inner: LLMatcher, tokens: Tokens, renewed: Callable[[], LLMatcher]) -> None:
        self._inner = inner
        self._tokens = tokens
        self._renewed: Callable[[], LLMatcher] | None = renewed
        self._consumed: list[int] = []
        self._bits = np.zeros(4 * -(-tokens.size // 32), np.uint8)
        self._run: tuple[int, ...] = ()

    @property
    def is_over(self) -> bool:
        return self._sure(LLMatcher.is_stopped)

    @property
    def may_end(self) -> bool:
        """The answer is complete, and could go on."""
        return self._sure(LLMatcher.is_accepting)

    def mask(self) -> NDArray[np.bool_]:
        if self.is_over:
            return self._tokens.ends.copy()
        self._sure(lambda inner: inner.unsafe_compute_mask_ptr(self._bits.ctypes.data, self._bits.size))
        mask = np.unpackbits(self._bits, count=self._tokens.size, bitorder="little").view(np.bool_)
        mask[self._tokens.end_ids] = self.may_end
        return mask

    def consume(self, token: int) -> None:
        self._run = self._run[1:] if token in self._run[:1] else ()
        self._sure(lambda inner: inner.consume_token(token))
        self._consumed.append(token)

    def forced(self) -> tuple[int, ...]:
        """A run of tokens stays as it was cut, also when it is consumed by and by."""
        if not self._run and not self.is_over:
            self._run = tuple(self._sure(LLMatcher.compute_ff_tokens))
        return self._run

    def guess(self) -> tuple[int, ...]:
        if self._ask(LLMatcher.is_stopped):
            return ()
        forced = self._run or tuple(self._ask(LLMatcher.compute_ff_tokens))
        known = len(self._tokens.tokenizer.decode_bytes(list(forced)))
        certain = self._ask(LLMatcher.compute_ff_bytes)[known:]
        return tuple(self._tokens.cut(certain.decode("utf-8", "ignore"))) if certain else ()

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """Of a draft that takes long to look at, only the part that was."""
        known = next((i for i, token in enumerate(tokens) if token >= self._tokens.size), len(tokens))
        if self._ask(LLMatcher.is_stopped):
            return 0
        legal, started = 0, perf_counter()
        for size in (*(size for size in TRIED if size < known), known):
            legal = self._ask(partial(_validated, list(tokens[:size])))
            if legal < size or perf_counter() - started > PATIENCE_S:
                break
        return legal

    def _ask(self, question: Callable[[LLMatcher], T]) -> T:
        """The answer of a matcher that is in order, if there is one."""
        answer = question(self._inner)
        if self._renewed is not None and self._inner.is_error() and LEXER in self._inner.get_error():
            self._inner, self._renewed = self._renewed(), None
            self._inner.consume_tokens(self._consumed)
            answer = question(self._inner)
        return answer

    def _sure(self, question: Callable[[LLMatcher], T]) -> T:
        answer = self._ask(question)
        if self._inner.is_error():
            raise RequestError(
                "the answer can no longer be held to its constraint, which is too complex; make it simpler",
                code="constraint_too_complex",
            )
        return answer


def _validated(tokens: list[int], inner: LLMatcher) -> int:
    return inner.validate_tokens(tokens)
