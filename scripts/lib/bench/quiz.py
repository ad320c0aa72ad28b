"""Arithmetic and word problems with computed answers, drawn from a seed: nobody has seen them, nothing is tuned to
them. Pure."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = ("Anna", "Ben", "Clara", "David", "Emma", "Farid", "Grace", "Hugo", "Ines", "Jonas", "Kofi", "Lena")
THINGS = ("pens", "apples", "tickets", "cups", "stamps", "candles", "bricks", "lemons", "buttons", "postcards")


@frozen
class Question:
    text: str
    answer: int


def quiz(seed: int, count: int = 40) -> list[Question]:
    """`count` different questions, each kind as often as any other."""
    draw = Random(seed)
    questions: dict[str, Question] = {}
    while len(questions) < count:
        kind = KINDS[len(questions) % len(KINDS)]
        question = kind(draw)
        questions[question.text] = question
    return list(questions.values())


def _sum(draw: Random) -> Question:
    a, b, c = draw.randint(100, 900), draw.randint(100, 900), draw.randint(20, 90)
    return Question(f"What is {a} + {b} - {c}?", a + b - c)


def _product(draw: Random) -> Question:
    a, b, c = draw.randint(11, 40), draw.randint(6, 19), draw.randint(10, 90)
    return Question(f"What is {a} * {b} + {c}?", a * b + c)


def _brackets(draw: Random) -> Question:
    a, b, c = draw.randint(12, 60), draw.randint(12, 60), draw.randint(3, 9)
    return Question(f"What is ({a} + {b}) * {c}?", (a + b) * c)


def _shopping(draw: Random) -> Question:
    name, thing = draw.choice(NAMES), draw.choice(THINGS)
    count, price, cheaper = draw.randint(4, 15), draw.randint(5, 12), draw.randint(2, 3)
    text = (
        f"{name} buys {count} {thing} at {price} euros each. The next day they cost {cheaper} euros less each, and"
        f" {name} buys {count + 2} more. How many euros does {name} spend in all?"
    )
    return Question(text, count * price + (count + 2) * (price - cheaper))


def _sharing(draw: Random) -> Question:
    name, thing = draw.choice(NAMES), draw.choice(THINGS)
    people, each, given = draw.randint(3, 9), draw.randint(6, 20), draw.randint(3, 5)
    text = (
        f"{name} has {people * each + given} {thing}. {name} keeps {given} of them and divides the others equally among"
        f" {people} friends. How many {thing} does each friend get?"
    )
    return Question(text, each)


def _travel(draw: Random) -> Question:
    speed, hours = draw.randint(6, 11) * 10, draw.randint(2, 5)
    slower, more = draw.randint(2, 4) * 10, draw.randint(2, 4)
    text = (
        f"A train goes {speed} km an hour for {hours} hours, and then {slower} km an hour slower for {more} more hours."
        " How many kilometres does it go in all?"
    )
    return Question(text, speed * hours + (speed - slower) * more)


def _percent(draw: Random) -> Question:
    price, percent, fee = draw.randint(3, 30) * 20, draw.choice((10, 20, 25, 50)), draw.randint(3, 15)
    text = (
        f"A coat costs {price} euros. Its price is lowered by {percent} per cent, and sending it costs {fee} euros."
        " How many euros are to be paid?"
    )
    return Question(text, price - price * percent // 100 + fee)


def _ages(draw: Random) -> Question:
    young, old = draw.sample(NAMES, 2)
    age, times, years = draw.randint(5, 14), draw.randint(2, 4), draw.randint(3, 12)
    text = f"{young} is {age} years old, {old} is {times} times as old. How old is {old} in {years} years?"
    return Question(text, age * times + years)


def _stock(draw: Random) -> Question:
    thing = draw.choice(THINGS)
    boxes, each, sold, new = draw.randint(5, 14), draw.randint(8, 24), draw.randint(20, 38), draw.randint(2, 5)
    text = (
        f"A shop has {boxes} boxes of {each} {thing}. It sells {sold} {thing}, and gets {new} more such boxes."
        f" How many {thing} does it have then?"
    )
    return Question(text, (boxes + new) * each - sold)


def _rate(draw: Random) -> Question:
    name = draw.choice(NAMES)
    pages, minutes, hours = draw.randint(2, 6), draw.choice((5, 10, 15, 20)), draw.randint(2, 4)
    text = f"{name} reads {pages} pages in {minutes} minutes. How many pages does {name} read in {hours} hours?"
    return Question(text, pages * hours * 60 // minutes)


KINDS: tuple[Callable[[Random], Question], ...] = (
    _sum, _product, _brackets, _shopping, _sharing, _travel, _percent, _ages, _stock, _rate,
)  # fmt: skip
