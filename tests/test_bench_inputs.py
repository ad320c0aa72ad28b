"""What scenarios are made of: papers, messages, code that is typed, an office's day, and the exam's answers."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from jsonschema import Draft202012Validator

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lib"))

from bench.code import TYPED_TOKENS, typing
from bench.day import HOUR_S, HOURS, KINDS, day
from bench.documents import FIELDS, Kind, paper
from bench.exam_page import SHAPES
from bench.exam_questions import QUESTIONS
from bench.prompts import Prompts
from bench.scenarios.labels import GRAMMAR
from bench.scenarios.schema import is_whole
from bench.tickets import LABELS, ticket

RIGHT = (
    "A rowing boat costs 14 euros an hour.",
    "16 euros.",
    "It costs 19 euros per hour.",
    "68 euros.",
    "29 euros, as Saturday is at the weekend.",
    "31 euros.",
    "No, sailing boats are no longer hired out.",
    "We are closed on Tuesdays.",
    "No, only at weekends.",
    "At 7 pm.",
    "No licence is needed.",
    "No, dogs may not come aboard electric boats.",
    "Yes, dogs may come aboard canoes.",
    "150 euros.",
    "No, only from 20 euros on.",
    "No, not on Sundays.",
    "No.",
    "Half of the price.",
    "0474 55 81 29.",
    "Greta Pircher.",
)
WRONG = (
    "16 euros.",
    "19 euros.",
    "16 euros.",
    "58 euros.",
    "26 euros.",
    "41 euros.",
    "Yes, you can.",
    "Yes, from 9:00 to 19:00.",
    "Yes, from ten to five.",
    "At 17:00.",
    "Yes, you need one.",
    "Yes, dogs are allowed.",
    "No, dogs are not allowed.",
    "50 euros.",
    "Yes, by card or in cash.",
    "Yes, 10 per cent.",
    "Yes, the time left is given back.",
    "Nothing.",
    "0474 55 81 20.",
    "Lindenhof Boats.",
)


def test_papers_hold_their_facts_and_fit_their_schema() -> None:
    draw = Random(1)
    for _ in range(50):
        kind = Kind.drawn(draw)
        text, facts = paper(draw)
        answer = {name: facts[fact] for fact, name in kind.fields}
        Draft202012Validator(kind.schema).validate(answer)
        assert len(answer) == len(FIELDS) == 10
        assert all(f"{value:.2f}" in text for value in facts.values() if isinstance(value, float))
        assert all(str(value) in text for value in facts.values() if isinstance(value, str) or type(value) is int)
        assert ("not a present" in text) is (facts["gift"] is False)
        assert is_whole(json.dumps(answer), kind)
        assert not is_whole("[]", kind)
        assert not is_whole('{"cut', kind)


def test_kinds_differ() -> None:
    draw = Random(2)
    assert len({Kind.drawn(draw) for _ in range(200)}) == 200


def test_messages_name_every_label_and_no_other() -> None:
    draw = Random(3)
    made = [ticket(draw) for _ in range(400)]
    assert {one.label for one in made} == set(LABELS)
    assert not [one.text for one in made if "{" in one.text]
    assert len(LABELS) == 8
    assert all(f'"{label}"' in GRAMMAR for label in LABELS)


@pytest.mark.parametrize("keys", [1, 40, 500])
def test_what_is_typed_is_a_file_again(keys: int) -> None:
    text = typing(Random(4), tokens=3000, keys=keys)
    assert len(text.typed) == keys
    whole = text.before + text.typed + text.after
    assert len(whole) == pytest.approx(3000 * TYPED_TOKENS, rel=0.1)
    above, line = text.at(keys)
    assert above + line == text.before + text.typed
    assert "\n" not in line
    assert above.endswith("\n")
    assert text.after.startswith("\n")
    ast.parse(text.before)


def test_code_that_is_drawn_compiles() -> None:
    whole = typing(Random(5), tokens=500, keys=20)
    ast.parse(whole.before)
    assert typing(Random(5), tokens=500, keys=20) == whole
    assert typing(Random(6), tokens=500, keys=20) != whole


def test_a_day_is_as_it_says() -> None:
    made = day(Random(7), Prompts(1, "replay", 0), requests=2000, answer_tokens=64)
    assert [one.hour for one in made] == sorted(one.hour for one in made)
    assert all(0 <= one.at <= HOUR_S for one in made)
    kinds = Counter(one.kind for one in made)
    for kind, share in KINDS.items():
        assert kinds[kind] == pytest.approx(20 * share, rel=0.2)
    by_hour = Counter(one.hour for one in made)
    assert by_hour[10] == pytest.approx(2000 * HOURS[10] / sum(HOURS), rel=0.3)
    assert by_hour[10] > 5 * by_hour[3]


def test_a_day_repeats_itself_but_not_too_much() -> None:
    """Of a day of the full size, questions are asked again; talks go on from what was said."""
    made = day(Random(8), Prompts(2, "replay", 0), requests=96, answer_tokens=64)
    texts = Counter(json.dumps(one.body) for one in made)
    again = len(made) - len(texts)
    assert 0 < again < len(made) / 4
    assert {json.loads(text)["max_tokens"] for text, count in texts.items() if count > 1} == {32}  # questions only
    talks = [one.body["messages"] for one in made if one.kind == "talk"]
    assert any(
        later[: len(earlier)] == earlier and len(later) > len(earlier)
        for place, earlier in enumerate(talks)
        for later in talks[place + 1 :]
    )


def test_both_sides_get_the_same_day() -> None:
    days = [day(Random(9), Prompts(3, "replay", 0), requests=40, answer_tokens=64) for _ in range(2)]
    assert days[0] == days[1]


def test_every_shape_of_the_page_has_the_same_numbers() -> None:
    numbers = [set(re.findall(r"\d+", page)) for page in SHAPES.values()]
    prices = {"14", "16", "19", "26", "29", "31", "41", "58", "68", "150"}
    assert prices | {"15", "20", "48", "1987"} <= set.intersection(*numbers)
    assert all(re.search("Pircher", page) and re.search("55 81 29", page) for page in SHAPES.values())


def test_right_answers_are_taken_and_wrong_ones_are_not() -> None:
    assert len(QUESTIONS) == len(RIGHT) == len(WRONG) == 20
    for asked, right, wrong in zip(QUESTIONS, RIGHT, WRONG, strict=True):
        assert asked.is_right(right), (asked.text, right)
        assert not asked.is_right(wrong), (asked.text, wrong)
        assert not asked.is_right("")
