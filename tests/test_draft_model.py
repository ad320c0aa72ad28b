"""The draft model on the fake engine: its cells follow the live texts, and what it guesses is what it would say."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from reame.core.cost import StepCost
from reame.core.request import Sampling
from reame.engine.draft_model import MOST, PROBE_GUESSES, DraftModel
from reame.engine.fake import FakeEngine, reference_tokens
from reame.speculation.sources import LiveText

if TYPE_CHECKING:
    from collections.abc import Sequence


GREEDY = Sampling(temperature=0)


class Disordered(FakeEngine):
    """The draft model frees cells in any order, which the plain fake, that models an exact engine, would refuse."""

    def values(self, seq: int) -> list[int]:
        return sorted(cell.position for cell in self.cells if seq in cell.seqs)


def dear(rows: float = 1.0) -> StepCost:
    """A served model whose further rows are nearly free, and whose steps take `rows` seconds."""
    cost = StepCost()
    cost.seed({1: rows, 64: 1.01 * rows})
    return cost


def live(tokens: Sequence[int]) -> LiveText:
    text = LiveText("")
    text.index.extend(tokens)
    return text


def drafts(engine: FakeEngine, cost: StepCost | None = None, num_decoding: int = 1) -> DraftModel:
    return DraftModel(engine, cost or dear(), lambda: num_decoding)


def test_it_guesses_what_it_would_say() -> None:
    model = drafts(Disordered(num_cells=60, num_seqs=2, max_rows=16))
    prompt = [1, 2, 3, 4, 5]
    guess = model.guess(live(prompt))
    assert guess is not None
    assert guess.source == "model"
    assert list(guess.tokens) == reference_tokens(prompt, GREEDY, len(guess.tokens), 8)


def test_a_long_prompt_is_read_in_pieces_and_then_it_guesses() -> None:
    model = drafts(Disordered(num_cells=200, num_seqs=1, max_rows=20))
    text = live([1 + i % 7 for i in range(100)])
    assert [model.guess(text) is None for _ in range(5)] == [True] * 4 + [False]


def test_it_says_nothing_where_that_does_not_pay_but_tries_now_and_then() -> None:
    slow = StepCost()
    slow.seed({1: 1e-9, 64: 64e-9})
    model = drafts(Disordered(num_cells=60, num_seqs=1, max_rows=16), slow)
    text = live([1, 2, 3])
    assert [n for n in range(2 * PROBE_GUESSES + 5) if model.guess(text)] == [PROBE_GUESSES - 1, 2 * PROBE_GUESSES - 1]


def test_it_stops_when_its_engine_fails_and_nobody_notices() -> None:
    engine = Disordered(num_cells=60, num_seqs=1, max_rows=16)
    model = drafts(engine)
    text = live([1, 2, 3])
    engine.fail_next_decode = True
    assert model.guess(text) is None
    assert model.guess(text) is None
    model.forget(text)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_and_goes_its_cells_are_those_of_the_live_texts(seed: int) -> None:
    """Texts grow by what it guessed, by something else, or end; there are more of them than it has room for."""
    random = Random(seed)
    engine = Disordered(num_cells=random.randint(40, 90), num_seqs=random.randint(1, 4), max_rows=20)
    model = drafts(engine)
    texts: list[LiveText] = []
    for _ in range(80):
        if not texts or (len(texts) < 6 and random.random() < 0.2):
            texts.append(live([random.randint(1, 7) for _ in range(random.randint(1, 30))]))
        text = random.choice(texts)
        guess = model.guess(text)
        assert not model.is_broken
        if guess and random.random() < 0.7:
            text.index.extend(guess.tokens[: random.randint(1, len(guess.tokens))])
        text.index.extend([random.randint(1, 7)])
        if random.random() < 0.1 or len(text.index.tokens) + MOST > engine.num_cells:
            model.forget(text)
            texts.remove(text)
        for each, copy in model._copies.items():
            assert each in texts
            assert engine.values(copy.seq) == list(range(len(copy.tokens)))
    held = {seq for cell in engine.cells for seq in cell.seqs}
    assert held <= {copy.seq for copy in model._copies.values()}
