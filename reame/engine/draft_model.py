"""A second, smaller model with the same vocabulary that guesses what the served one will say. Decode thread only."""

from __future__ import annotations

import logging
import math
import time
from typing import TYPE_CHECKING

from attrs import define, field

from reame.core.cost import StepCost
from reame.core.request import Sampling
from reame.core.slots import common_prefix
from reame.engine.base import Row
from reame.errors import EngineError
from reame.speculation.survival import Guess

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.engine.base import Engine, Sampler
    from reame.speculation.sources import LiveText

NAME = "model"
MOST = 16
"""Tokens of a guess."""
CHANCES = (0.3, 0.5, 0.7, 0.85, 0.95)
"""The draft model's own probability of a token sorts it into kinds."""
CATCH_UP = 0.25
"""Share of a plain step's time that may go into reading a prompt that the draft model does not know yet."""
PROBE_GUESSES = 200
"""So many times it says nothing because that would not pay, then it tries again."""
WEIGHT = 0.05
"""Of a new experience in the running mean of first tokens that came true."""

log = logging.getLogger(__name__)


@define(eq=False)
class _Copy:
    """What the draft model's cells hold of a live text."""

    seq: int
    tokens: list[int] = field(factory=list)
    guessed: tuple[int, int] | None = None
    """(position, token) of the first token of its last guess."""


class DraftModel:
    """A `CostlySource`. Its cells follow the live texts by longest common prefix; what does not fit is forgotten.

    `cost` is T(rows) of the served model, `num_decoding` how many sequences share its steps. Guesses are greedy, for
    one text at a time; their length weighs each further token's chance against what it costs here and there.
    """

    def __init__(self, engine: Engine, cost: StepCost, num_decoding: Callable[[], int]) -> None:
        self._engine = engine
        self._cost = cost
        self._own_cost = StepCost()
        self._num_decoding = num_decoding
        self._sampler: Sampler = engine.new_sampler(Sampling(temperature=0), ())
        self._copies: dict[LiveText, _Copy] = {}
        self._rate = 0.7
        self._num_silent = 0
        self._row = 0
        self.is_broken = False

    def guess(self, text: LiveText) -> Guess | None:
        if self.is_broken or len(text.index.tokens) + MOST > self._engine.num_cells:
            return None
        copy = self._copy(text)
        self._learn(copy, text.index.tokens)
        try:
            return self._guess(copy, text.index.tokens)
        except EngineError as error:
            log.warning("the draft model is not asked any more: %s", error)
            self.is_broken = True
            return None

    def forget(self, text: LiveText) -> None:
        copy = self._copies.pop(text, None)
        if copy and not self.is_broken:
            self._trim(copy, 0)

    def set_threads(self, decode: int, prefill: int) -> None:
        self._engine.set_threads(decode, prefill)

    def close(self) -> None:
        self._engine.free_sampler(self._sampler)
        self._engine.close()

    def _guess(self, copy: _Copy, tokens: list[int]) -> Guess | None:
        self._trim(copy, min(common_prefix(copy.tokens, tokens), len(tokens) - 1))
        if not self._pays():
            return None
        if not self._catch_up(copy, tokens):
            return None
        found: list[int] = []
        kinds: list[int] = []
        alive = self._rate
        while len(found) < MOST and (alive >= self._price(len(found)) or not found):
            token = self._engine.sample(self._row, self._sampler)
            chance = math.exp(self._engine.logprobs(self._row, token, 0)[0])
            found.append(token)
            kinds.append(sum(chance >= edge for edge in CHANCES))
            alive = alive * chance if len(found) > 1 else chance
            if token in self._engine.info.eog_tokens or len(copy.tokens) + 1 >= self._engine.num_cells:
                break
            self._decode(copy, [token])
        copy.guessed = len(tokens), found[0]
        return Guess(NAME, tuple(found), kinds, 0.6)

    def _pays(self) -> bool:
        """Whether even one token is worth its price; if not, it tries now and then all the same."""
        self._num_silent += 1
        if self._rate < self._price(0) and self._num_silent < PROBE_GUESSES:
            return False
        self._num_silent = 0
        return True

    def _price(self, length: int) -> float:
        """The chance from which on one more token behind `length` guessed ones pays: its rows here and there against
        the share of a plain step that it may save."""
        num = max(1, self._num_decoding())
        rows = num + length
        extra = self._cost.seconds(rows + 1) - self._cost.seconds(rows)
        return (self._own_cost.seconds(1) + max(0.0, extra)) * num / self._cost.seconds(num)

    def _catch_up(self, copy: _Copy, tokens: list[int]) -> bool:
        """Compute what the copy misses of the text, in pieces that cost running streams little. True: it is there."""
        missing = tokens[len(copy.tokens) :]
        limit = self._own_cost.rows_within(CATCH_UP * self._cost.seconds(1), self._engine.max_rows)
        part = missing[: max(limit, 1 if len(missing) > MOST else MOST)]
        self._make_room(copy, len(part) + MOST)
        self._decode(copy, part)
        return len(part) == len(missing)

    def _decode(self, copy: _Copy, tokens: list[int]) -> None:
        start, last = len(copy.tokens), len(tokens) - 1
        rows = [Row(token, start + i, copy.seq, i == last) for i, token in enumerate(tokens)]
        started = time.perf_counter()
        self._engine.decode(rows)
        self._own_cost.observe(len(rows), time.perf_counter() - started)
        copy.tokens += tokens
        self._row = last

    def _copy(self, text: LiveText) -> _Copy:
        """The text's own, moved to the end of the line of those that must go when there is no room."""
        copy = self._copies.pop(text, None)
        if copy is None:
            free = set(range(self._engine.num_seqs)) - {each.seq for each in self._copies.values()}
            if not free:
                oldest = next(iter(self._copies))
                self.forget(oldest)
                return self._copy(text)
            copy = _Copy(min(free))
        self._copies[text] = copy
        return copy

    def _make_room(self, copy: _Copy, more: int) -> None:
        for text, other in list(self._copies.items()):
            held = sum(len(each.tokens) for each in self._copies.values())
            if held + more <= self._engine.num_cells:
                return
            if other is not copy:
                self.forget(text)

    def _trim(self, copy: _Copy, length: int) -> None:
        """Cells are freed at once, in any order: where they lie decides the last bits of a guess, and no text."""
        if length < len(copy.tokens):
            self._engine.trim(copy.seq, length)
            self._engine.compact(())
            del copy.tokens[length:]

    def _learn(self, copy: _Copy, tokens: list[int]) -> None:
        if copy.guessed and copy.guessed[0] < len(tokens):
            position, token = copy.guessed
            self._rate += WEIGHT * ((tokens[position] == token) - self._rate)
            copy.guessed = None
