"""Prompts that are rated, answers that begin by spelling what was taken back, and answers that end when it is late."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from making import play, request, rows, scheduler, told

from reame.core.batch import Output, StepResult
from reame.core.events import Delta, Finish, TokenLogprob

if TYPE_CHECKING:
    from reame.core.request import Request

NEWLINE = 4
"""The letter "d" stands for it here."""


def rated(name: str, length: int, max_tokens: int = 4) -> Request:
    return evolve(request(name, [1 + n % 9 for n in range(length)], max_tokens, logprobs=0), prompt_logprobs=True)


def test_no_more_rows_are_rated_than_may_give_logits() -> None:
    loop = scheduler(max_rows=40, max_sampled=6)
    loop.add(rated("r", 20), 0)
    assert rows(loop.plan(0)) == {"r": 6}


def test_two_share_them_and_a_prompt_that_is_not_rated_does_not_count() -> None:
    loop = scheduler(max_rows=60, max_sampled=8, max_running=3)
    loop.add(rated("r", 10), 0)
    loop.add(evolve(rated("s", 10), prompt=(9, *range(1, 10))), 0)
    loop.add(request("plain", [8, 7] * 6), 0)
    planned = rows(loop.plan(0))
    assert planned["plain"] == 12
    assert planned["r"] + planned["s"] == 7  # each has one row anyway, and the plain one has one too
    assert min(planned.values()) >= 1


def test_a_rated_prompt_takes_nothing_from_others_but_gives() -> None:
    loop = scheduler()
    prompt = [1 + n % 9 for n in range(12)]
    loop.add(request("first", prompt, 1), 0)
    play(loop)
    sequence = loop.add(rated("r", 12, 1), 0)
    batch = loop.plan(0)
    assert batch is not None
    assert rows(batch) == {"r": 12}
    (part,) = batch.slices
    assert list(part.rated) == list(range(11))
    told_tokens = tuple(TokenLogprob(token, b"", -1.0) for token in prompt)
    loop.commit(batch, StepResult(outputs=[Output((1,), rated=told_tokens)], seconds=0.01), 0)
    events = [event for _, event in loop.take_events()]
    assert [event.prompt_logprobs for event in events if isinstance(event, Delta)][-2:] == [told_tokens, ()]
    assert sequence.usage().cached_tokens == 0
    loop.add(request("last", prompt, 1), 0)
    assert rows(loop.plan(0)) == {"last": 1}


def test_what_was_taken_back_is_drawn_and_not_told() -> None:
    loop = scheduler()
    loop.add(evolve(request("h", "xy", 1, stop=("b",)), healed=b"ab", most_again=2), 0)
    play(loop, {"h": [1]})
    assert told(loop) == {}
    play(loop, {"h": [2]})
    assert told(loop) == {}
    play(loop, {"h": [3]})
    assert told(loop) == {"h": ["c", "<length>"]}


@pytest.mark.parametrize(
    ("most_again", "drawn", "text", "num_again"),
    [
        (4, ["a", "b", "c", "d", "x"], "x", 4),
        (4, ["ab", "cd", "x"], "x", 2),
        (4, ["ab", "cdx"], "x", 1),
        (4, ["abcdx"], "x", 0),
        (1, ["ab", "cd"], "", 2),  # no room for more in the context
        (0, ["abcdx"], "x", 0),
    ],
)
def test_only_what_goes_beyond_what_was_taken_back_counts(
    most_again: int, drawn: list[str], text: str, num_again: int
) -> None:
    loop = scheduler()
    loop._telling._piece = lambda token: drawn[token - 1].encode()
    loop.add(evolve(request("h", "xy", 1), healed=b"abcd", most_again=most_again), 0)
    for token in range(1, len(drawn) + 1):
        play(loop, {"h": [token]})
    *deltas, finish = [event for _, event in loop.take_events()]
    assert "".join(event.text for event in deltas if isinstance(event, Delta)) == text
    assert isinstance(finish, Finish)
    assert (finish.reason, finish.num_again) == ("length", num_again)
    assert finish.usage.completion_tokens == len(drawn)


def test_a_late_answer_ends_once_it_has_a_line() -> None:
    loop = scheduler()
    loop._telling._piece = lambda token: b"\n" if token == NEWLINE else b"x"
    loop.add(evolve(request("late", "ab", 50), generation_s=2.0), 0)
    for now, token in ((1.0, 1), (2.0, NEWLINE), (2.9, 1), (3.1, 1)):
        play(loop, {"late": [token]}, now=now)
    assert told(loop) == {"late": ["x", "\n", "x", "x", "<length>"]}
    loop.add(evolve(request("one line", "ba", 5), generation_s=2.0), 4.0)
    for now in (4.0, 6.0, 9.0):
        play(loop, {"one line": [1]}, now=now)
    assert "<length>" not in told(loop)["one line"]


def test_a_line_that_is_forced_at_the_beginning_is_not_late() -> None:
    """Its time begins with the first token that is drawn."""
    loop = scheduler()
    loop._telling._piece = lambda token: b"\n" if token == NEWLINE else b"x"
    loop.add(evolve(request("forced", "ab", 9), generation_s=2.0, forced=(NEWLINE,)), 50.0)
    for now in (51.0, 52.9, 53.1):
        play(loop, {"forced": [1]}, now=now)
    assert told(loop) == {"forced": ["\nx", "x", "x", "<length>"]}


def test_no_tokens_wanted_means_their_number_was_reached() -> None:
    loop = scheduler()
    loop.add(request("none", "abcd", 0), 0)
    assert rows(play(loop)) == {"none": 3}
    loop.plan(0)
    assert told(loop)["none"][-1] == "<length>"
    loop.add(evolve(request("warm", "dcba", 0), background=True), 0)
    play(loop)
    loop.plan(0)
    assert told(loop)["warm"][-1] == "<stop>"
