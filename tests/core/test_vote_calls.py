"""Answers that call tools vote for their calls."""

from __future__ import annotations

import json

import pytest

from reame.core.constraint import Constraint
from reame.core.vote_calls import calls_ballot

TOOLS = Constraint("tools", json.dumps({"tools": [], "must": False, "parallel": True}))


def call(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


READ = call("read_file", '{"id": 5, "deep": true}')


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        (READ, True),
        ("I look it up: 17 files." + READ, True),
        (call("read_file", '{"deep": true, "id": 5.0}'), True),
        (call("delete_file", '{"id": 5, "deep": true}'), False),
        (call("read_file", '{"id": 6, "deep": true}'), False),
        (call("read_file", '{"id": "5", "deep": true}'), False),
        (READ + "\n" + READ, False),
    ],
)
def test_two_say_the_same_when_they_call_the_same(other: str, is_same: bool) -> None:
    assert (calls_ballot(READ, TOOLS) == calls_ballot(other, TOOLS)) is is_same


@pytest.mark.parametrize("constraint", [None, Constraint("json_object"), TOOLS])
def test_who_calls_nothing_says_what_it_says(constraint: Constraint | None) -> None:
    assert calls_ballot("The answer is 5.", constraint) is None


def test_a_mark_within_an_answer_of_a_form_is_no_call() -> None:
    either = Constraint("tools", json.dumps({"tools": [], "must": False, "parallel": True, "answer": {}}))
    assert calls_ballot(json.dumps({"text": READ}), either) is None
    assert calls_ballot(READ, either) == calls_ballot(READ, TOOLS)
