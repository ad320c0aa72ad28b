"""Nothing is guessed behind the last token: a drafter reads the whole prompt before its first guess."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.fake import FakeEngine
from reame.engine.step import NoDrafter, StepRunner

if TYPE_CHECKING:
    from reame.core.draft import Draft
    from reame.core.sequence import Sequence


class Asked(NoDrafter):
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        self.times += 1
        return super().propose(sequence, drawn, hint)


@pytest.mark.parametrize(("max_tokens", "times"), [(1, 0), (2, 1), (5, 4)])
def test_a_guess_before_each_token_but_the_first(max_tokens: int, times: int) -> None:
    engine, drafter = FakeEngine(num_cells=100, num_seqs=4), Asked()
    loop = Scheduler(
        Slots(100, 4), Limits(max_running=2, max_rows=16), piece=engine.vocabulary.piece, eog_tokens=frozenset()
    )
    runner = StepRunner(engine, drafter)
    loop.add(Request(id="a", prompt=(3, 4, 5), max_tokens=max_tokens, sampling=Sampling(temperature=0)), 0.0)
    while batch := loop.plan(0.0):
        loop.commit(batch, runner.run(batch), 0.0)
    assert loop.num_drawn == max_tokens
    assert drafter.times == times
