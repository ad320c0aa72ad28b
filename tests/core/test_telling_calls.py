"""Stop strings beside calls of tools: they end text, never a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from making import play, request, scheduler

from reame.core.constraint import Constraint
from reame.core.events import Delta

if TYPE_CHECKING:
    from reame.core.events import Event, FinishReason

CALL = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'


def events(text: str, stop: str, *, kind: str = "tools", max_tokens: int = 100) -> list[Event]:
    """What is told of an answer, a letter a token, that may call tools."""
    loop = scheduler(num_cells=200)
    loop._telling._piece = lambda token: text[token - 1].encode()
    asked = evolve(request("r", "ab", max_tokens, stop=(stop,)), constraint=Constraint(kind))  # type: ignore[arg-type]
    loop.add(asked, 0)
    for token in (*range(1, len(text) + 1), 0):
        if loop.sequences():
            play(loop, {"r": [token]})
    return [event for _, event in loop.take_events()]


def outcome(told: list[Event]) -> tuple[str, FinishReason | None, str]:
    end = told[-1]
    assert not isinstance(end, Delta)
    return "".join(event.text for event in told[:-1] if isinstance(event, Delta)), end.reason, end.stop


@pytest.mark.parametrize("stop", ["\n", '"name"', "</tool_call>", "<tool_call>", "<", "l>\n"])
def test_no_stop_is_looked_for_in_a_call(stop: str) -> None:
    assert outcome(events(f"Hm. {CALL}", stop)) == (f"Hm. {CALL}", "stop", "")
    assert outcome(events(CALL, stop, kind="grammar"))[2] == stop


def test_a_stop_in_the_text_before_it_ends_the_answer() -> None:
    assert outcome(events(f"Hm. {CALL}", ".")) == ("Hm", "stop", ".")
    assert outcome(events("a <tool> b", "<")) == ("a ", "stop", "<")


def test_a_stop_that_may_have_been_a_mark_is_found_at_the_end() -> None:
    assert outcome(events("a <too", "<")) == ("a ", "stop", "<")
    assert outcome(events("a <too", "<", max_tokens=4)) == ("a ", "stop", "<")
    assert outcome(events("a <too", "x", max_tokens=4)) == ("a <t", "length", "")
