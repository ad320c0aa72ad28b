"""Commit by hand: what the outcome of a step means for the clients, and what ends them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from making import LETTERS, held, names, play, request, rows, scheduler, told

from reame.core.batch import Batch, Forget, Output, StepResult, Trim
from reame.core.events import Finish, TokenLogprob
from reame.errors import EngineError, RequestError

if TYPE_CHECKING:
    from reame.core.scheduler import Scheduler


def logprobs(*tokens: int) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token, LETTERS[token : token + 1], -float(token)) for token in tokens)


def commit(loop: Scheduler, batch: Batch | None, *outputs: Output, now: float = 0.0) -> None:
    assert batch is not None
    loop.commit(batch, StepResult(outputs=outputs, seconds=0.001), now)


class TestEnds:
    def test_the_longest_answer_ends_with_length(self) -> None:
        loop = scheduler()
        sequence = loop.add(request("x", "xy", 2), 0.0)
        play(loop, {"x": [3]})
        play(loop, {"x": [4]})
        assert told(loop) == {"x": ["c", "d", "<length>"]}
        assert (sequence.usage().prompt_tokens, sequence.usage().completion_tokens) == (2, 2)

    def test_an_answer_may_fill_the_cells_to_the_last(self) -> None:
        loop = scheduler(num_cells=8, num_seqs=1, max_running=1)
        loop.add(request("x", "abcdef", 3), 0.0)
        while loop.sequences():
            play(loop)
        assert told(loop)["x"][-1] == "<length>"
        assert loop.admission.slots.num_free == 0

    def test_an_end_token_has_no_text_and_tells_what_was_held_back(self) -> None:
        loop = scheduler()
        loop.add(request("x", "x", 9, stop=("abc",)), 0.0)
        play(loop, {"x": [1]})
        assert told(loop) == {}
        play(loop, {"x": [0]})
        assert told(loop) == {"x": ["a", "<stop>"]}

    def test_the_deadline_ends_whoever_runs_or_waits(self) -> None:
        loop = scheduler(max_running=1)
        running = loop.add(request("x", "xyz", deadline=5.0), 0.0)
        loop.add(request("y", "abc", deadline=4.0), 0.0)
        play(loop, now=3.9)
        assert told(loop) == {"x": ["a"]}
        play(loop, now=4.0)
        assert told(loop) == {"y": ["<request_timeout>"], "x": ["a"]}
        batch = loop.plan(5.0)
        assert batch is not None
        assert (batch.slices, batch.operations) == ((), (Forget("x"),))
        ((_, finish),) = loop.take_events()
        assert isinstance(finish, Finish)
        assert finish.error is not None
        assert (finish.reason, finish.error.status) == (None, 408)
        assert (running.done, running.slot, loop.sequences()) == (True, None, [])

    def test_who_is_cancelled_hears_nothing_and_costs_nothing(self) -> None:
        loop = scheduler(max_running=1)
        running, waiting = (loop.add(request(name, "xyz"), 0.0) for name in "ab")
        play(loop)
        told(loop)
        loop.cancel(running)
        loop.cancel(running)
        loop.cancel(waiting)
        batch = loop.plan(0.0)
        assert batch is not None
        assert (batch.slices, batch.operations) == ((), (Forget("a"), Forget("b")))
        assert (told(loop), loop.plan(0.0)) == ({}, None)

    def test_a_failure_is_told_as_it_is(self) -> None:
        loop = scheduler()
        sequence = loop.add(request("x", "x"), 0.0)
        error = RequestError("stopping", status=503, code="server_stopping")
        loop.fail(sequence, error, 1.0)
        assert told(loop) == {"x": ["<server_stopping>"]}

    def test_a_failed_step_ends_its_own_sequences_only_and_trusts_none_of_its_cells(self) -> None:
        loop = scheduler(max_running=3, max_rows=2)
        for name in ("abcdefgh", "stuvwxyz", "q"):
            loop.add(request(name, name), 0.0)
        play(loop)
        batch = loop.plan(0.0)
        assert batch is not None
        assert rows(batch) == {"q": 1, "abcdefgh": 1}
        computed = loop.num_rows
        loop.commit(batch, StepResult(seconds=0.1, error=EngineError("no")), 0.0)
        assert loop.num_rows == computed
        assert told(loop) == {"q": ["a", "<engine_error>"], "abcdefgh": ["<engine_error>"]}
        assert names(loop.running) == ["stuvwxyz"]
        assert held(loop.admission) == [[], [], [], []]
        operations = [operation for operation in play(loop).operations if not isinstance(operation, Trim | Forget)]
        assert len(operations) == 1  # a compaction: how much the failed step wrote is not known

    def test_times_are_told_in_milliseconds(self) -> None:
        loop = scheduler(max_running=1, max_rows=4)
        loop.add(request("first", "x", 1), 10.0)
        loop.add(request("x", "abcdefgh", 3), 10.0)
        play(loop, now=10.5)
        for now in (11.0, 12.0, 12.5, 14.0):
            play(loop, now=now)
        finish = loop.take_events()[-1][1]
        assert isinstance(finish, Finish)
        timings = finish.timings
        assert (timings.queued_ms, timings.prefill_ms, timings.decode_ms) == (1000.0, 1000.0, 2000.0)


class TestLogprobs:
    def told(self, stop: tuple[str, ...], *steps: tuple[int, ...], max_tokens: int = 50) -> list[tuple[str, list[int]]]:
        """Draw `steps`; what was told of each delta: its text and the tokens whose logprobs came with it."""
        loop = scheduler()
        loop.add(request("x", "x", max_tokens, stop=stop, logprobs=0), 0.0)
        for tokens in steps:
            commit(loop, loop.plan(0.0), Output(tokens, logprobs(*tokens)))
        deltas = [event for _, event in loop.take_events() if not isinstance(event, Finish)]
        return [(delta.text, [entry.token for entry in delta.logprobs]) for delta in deltas]

    def test_they_come_with_their_token(self) -> None:
        assert self.told((), (1,), (2,)) == [("a", [1]), ("b", [2])]

    def test_they_wait_with_text_that_is_held_back(self) -> None:
        assert self.told(("bcd",), (1,), (2,), (3,), (5,)) == [("a", [1]), ("bce", [2, 3, 5])]

    def test_those_of_a_stop_string_are_never_told(self) -> None:
        assert self.told(("bcd",), (1,), (2,), (3,), (4,)) == [("a", [1])]

    def test_those_held_back_come_at_the_end(self) -> None:
        assert self.told(("bcd",), (1,), (2,), (0,)) == [("a", [1]), ("b", [2])]
        assert self.told(("bcd",), (1,), (2,), max_tokens=2) == [("a", [1]), ("b", [2])]


def test_none_of_this_is_left_when_all_are_gone() -> None:
    loop = scheduler(max_running=2)
    for name in "abcd":
        loop.add(request(name, name * 3, 2), 0.0)
    while loop.sequences():
        play(loop)
    assert loop.plan(0.0) is not None  # the last Forgets
    assert loop.plan(0.0) is None
    assert (loop.admission.slots.num_pinned, loop.waiting(), loop.running) == (0, [], [])
