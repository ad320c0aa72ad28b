"""What an oracle's world is made of: an engine that is strict, constraints, and guesses that are right, half right or
wrong."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve

from reame.core.draft import Draft
from reame.engine.fake import FakeEngine, FakeVocabulary
from reame.engine.step import NoDrafter
from reame.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from numpy.typing import NDArray

    from reame.core.constraint import Constraint
    from reame.core.request import Sampling
    from reame.core.sequence import Sequence
    from reame.engine.base import Row

VOCABULARY = 8


class PairVocabulary(FakeVocabulary):
    """The last token is two letters."""

    def piece(self, token: int) -> bytes:
        return b"ab" if token == VOCABULARY - 1 else super().piece(token)


class StrictEngine(FakeEngine):
    """The fake, with a failed decode that leaves garbage behind, and samplers that may be freed once only."""

    def __init__(self, *, num_cells: int, num_seqs: int, max_rows: int, whole_state: bool) -> None:
        super().__init__(
            num_cells=num_cells, num_seqs=num_seqs, max_rows=max_rows, vocab_size=VOCABULARY, whole_state=whole_state
        )
        self.vocabulary = PairVocabulary(VOCABULARY)
        self.samplers: list[object] = []

    def decode(self, rows: Seq[Row]) -> None:
        if self.fail_next_decode:
            self.fail_next_decode = False
            super().decode([evolve(row, token=row.token % 7 + 1) for row in rows[: len(rows) // 2 + 1]])
            raise EngineError("decode failed half way, as asked")
        super().decode(rows)

    def new_sampler(self, sampling: Sampling, prompt: Seq[int]) -> object:  # type: ignore[override]
        self.samplers.append(super().new_sampler(sampling, prompt))
        return self.samplers[-1]

    def free_sampler(self, sampler: object) -> None:
        assert any(sampler is live for live in self.samplers), "a sampler was freed twice"
        self.samplers = [live for live in self.samplers if live is not sampler]

    def sample(self, row: int, sampler: object) -> int:
        assert any(sampler is live for live in self.samplers), "a sampler was used after its end"
        return super().sample(row, sampler)

    def values(self, seq: int) -> list[int]:
        return [cell.value for cell in self._held(seq)]

    @property
    def num_used(self) -> int:
        return sum(bool(cell.seqs - {-1}) for cell in self.cells)


def chain(tokens: Seq[int]) -> tuple[list[int], list[int]]:
    """What the cells of `tokens` must hold, and the state after each of them: the fake engine's rule, written anew."""
    values: list[int] = []
    states = []
    for position, token in enumerate(tokens):
        seen = tuple(values)
        values.append(hash((token, position, seen)))
        states.append(hash((values[-1], seen)))
    return values, states


class ToyMatcher:
    """A random automaton over the eight tokens: states with one way on, with some, and with none."""

    def __init__(self, constraint: Constraint) -> None:
        random = Random(constraint.source)
        self.num_states = random.randint(2, 6)
        ways = [0, 1, 1, 1, 1, 2, 3, 7]
        self.next = [
            {token: random.randrange(self.num_states) for token in random.sample(range(1, 8), random.choice(ways))}
            for _ in range(self.num_states)
        ]
        self.ends = [random.random() < 0.3 for _ in range(self.num_states)]
        self.state = 0

    @property
    def is_over(self) -> bool:
        return not self.next[self.state]

    def mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(VOCABULARY, bool)
        mask[list(self.next[self.state])] = True
        mask[0] = self.ends[self.state] or self.is_over
        return mask

    def consume(self, token: int) -> None:
        self.state = self.next[self.state][token]

    def forced(self) -> tuple[int, ...]:
        state, tokens = self.state, []
        while len(self.next[state]) == 1 and not self.ends[state] and len(tokens) < 5:
            ((token, state),) = self.next[state].items()
            tokens.append(token)
        return tuple(tokens)

    def guess(self) -> tuple[int, ...]:
        return tuple(self.next[self.state])[:1]

    def legal_prefix(self, tokens: Seq[int]) -> int:
        state = self.state
        for number, token in enumerate(tokens):
            if token not in self.next[state]:
                return number
            state = self.next[state][token]
        return len(tokens)


class Speller:
    """What `healed` lets come, token by token, until it is spelled."""

    is_over = False

    def __init__(self, healed: bytes) -> None:
        self.rest = healed
        self.pieces = [PairVocabulary(VOCABULARY).piece(token) for token in range(VOCABULARY)]

    def mask(self) -> NDArray[np.bool_]:
        rest = self.rest
        fits = [piece != b"" and (piece.startswith(rest) or rest.startswith(piece)) for piece in self.pieces]
        return np.array(fits if rest else [True] * VOCABULARY)

    def consume(self, token: int) -> None:
        self.rest = self.rest[len(self.pieces[token]) :]

    def forced(self) -> tuple[int, ...]:
        return ()

    def guess(self) -> tuple[int, ...]:
        return ()

    def legal_prefix(self, tokens: Seq[int]) -> int:
        raise AssertionError("the plain loop does not ask")


class Guesser(NoDrafter):
    """The truth, the truth with a fault in it, noise, or nothing; believed in more or less."""

    def __init__(self, random: Random, expected: dict[str, list[int]]) -> None:
        self._random = random
        self._expected = expected

    def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        so_far = len(sequence.tokens) - len(sequence.request.prompt) + len(drawn)
        truth = self._expected[sequence.request.id][so_far:]
        noise = [self._random.randrange(8) for _ in range(self._random.randrange(8))]
        kind = self._random.randrange(5)
        tokens = tuple((truth[:5], truth[:2] + noise, noise, list(hint), [])[kind])
        survival = self._random.choice([1.0, 0.9, 0.5])
        return Draft(tokens, tuple(survival**n for n in range(1, len(tokens) + 1)), "guess") if tokens else None
