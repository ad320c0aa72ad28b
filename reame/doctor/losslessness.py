"""The promise put to the test on this machine: the same text cold and warm, alone and in a crowd, to the last bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.request import Sampling
from reame.engine.base import Row

if TYPE_CHECKING:
    from reame.engine.base import Engine

TEXT = (
    "The rivers of northern Italy rise in the Alps and meet in the plain. The longest of them is the Po, which flows"
    " from west to east and ends in a wide delta on the Adriatic Sea. Farmers have used its water since"
)
LENGTH = 8
"""Tokens drawn in each of the three runs."""
CROWD = 7
"""Other sequences in the crowded run: eight rows a step, where kernels change."""
SEQS = 1 + CROWD
ROWS, STEPS = 220, 3 * LENGTH
"""About how many rows of prompts and steps of decoding `check` takes."""
_TOP = 20
_MOST_TOKENS = 96
Draw = tuple[int, tuple[float, ...]]
"""A drawn token, and log-probabilities: its own and those of the 20 likeliest."""


def check(engine: Engine) -> tuple[float, float, bool]:
    """How far log-probabilities move warm, and in a crowd, against alone and cold; whether the texts were the same.

    Needs an engine of `SEQS` sequences and some 300 free cells; leaves it empty.
    """
    prompt = engine.vocabulary.tokenize(TEXT, add_special=True, parse_special=False)[:_MOST_TOKENS]
    last = len(prompt) - 1
    engine.trim(0, 0)
    engine.compact(())
    _feed(engine, prompt[:-1], 0)
    saved = engine.save(0, 0, last)
    cold = _draw(engine, prompt[-1], last, crowd=False)
    _empty(engine)
    engine.restore(0, 0, last, saved)
    warm = _draw(engine, prompt[-1], last, crowd=False)
    _empty(engine)
    for seq in range(1, SEQS):
        _feed(engine, prompt[seq : 2 * seq + 1], seq)
    for start in range(0, last, 8):
        _feed(engine, prompt[start : min(start + 8, last)], 0, at=start)
    crowd = _draw(engine, prompt[-1], last, crowd=True)
    _empty(engine)
    same = [token for token, _ in cold] == [token for token, _ in warm] == [token for token, _ in crowd]
    return _distance(cold, warm), _distance(cold, crowd), same


def _feed(engine: Engine, tokens: list[int], seq: int, *, at: int = 0) -> None:
    engine.decode([Row(token, at + i, seq, sampled=False) for i, token in enumerate(tokens)])


def _draw(engine: Engine, token: int, position: int, *, crowd: bool) -> list[Draw]:
    """Greedy, one step a token; in a crowd the other sequences take a row each in every step."""
    sampler = engine.new_sampler(Sampling(temperature=0), ())
    drawn = []
    for _ in range(LENGTH):
        rows = [Row(token, position, 0, sampled=True)]
        if crowd:
            rows += [Row(token, engine.length(seq), seq, sampled=True) for seq in range(1, SEQS)]
        engine.decode(rows)
        token, position = engine.sample(0, sampler), position + 1
        own, top = engine.logprobs(0, token, _TOP)
        drawn.append((token, (own, *(value for _, value in top))))
    engine.free_sampler(sampler)
    return drawn


def _distance(one: list[Draw], other: list[Draw]) -> float:
    """Up to the first token that differs, which is the end of what can be compared."""
    most = 0.0
    for (token, values), (other_token, others) in zip(one, other, strict=True):
        most = max(most, *(abs(a - b) for a, b in zip(values, others, strict=True)))
        if token != other_token:
            break
    return most


def _empty(engine: Engine) -> None:
    for seq in range(SEQS):
        engine.trim(seq, 0)
    engine.compact(())
