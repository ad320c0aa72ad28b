"""The quiz: drawn from its seed, with answers that are right."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lib"))

from bench.quiz import KINDS, quiz

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_seed_decides() -> None:
    assert quiz(1) == quiz(1)
    assert quiz(1) != quiz(2)


def test_all_kinds_are_there_as_often() -> None:
    questions = quiz(3)
    assert len({question.text for question in questions}) == 40
    shapes = Counter(" ".join(re.findall("[a-z]+", question.text)[-3:]) for question in questions)
    assert len(questions) == 4 * len(KINDS)
    assert len(shapes) > 5


@pytest.mark.parametrize("seed", range(20))
def test_sums_are_right(seed: int) -> None:
    """Those that are written out can be computed by somebody else."""
    written = [question for question in quiz(seed) if question.text.startswith("What is ")]
    assert len(written) == 12
    for question in written:
        assert eval(question.text.removeprefix("What is ").removesuffix("?")) == question.answer


WORKED: dict[str, Callable[..., float]] = {
    "buys": lambda count, price, less, more: count * price + more * (price - less),
    "has": lambda all_, kept, friends: (all_ - kept) / friends,
    "train": lambda speed, hours, slower, more: speed * hours + (speed - slower) * more,
    "coat": lambda price, percent, fee: price * (100 - percent) / 100 + fee,
    "is": lambda age, times, years: age * times + years,
    "shop": lambda boxes, each, sold, more: boxes * each - sold + more * each,
    "reads": lambda pages, minutes, hours: pages * 60 / minutes * hours,
}
"""By the second word of a problem: how a person works it out with the numbers that stand in it, in their order."""


@pytest.mark.parametrize("seed", range(20))
def test_word_problems_are_right(seed: int) -> None:
    problems = [question for question in quiz(seed) if not question.text.startswith("What is ")]
    assert len(problems) == 28
    for problem in problems:
        work = WORKED[problem.text.split()[1]]
        assert work(*map(int, re.findall(r"\d+", problem.text))) == problem.answer
