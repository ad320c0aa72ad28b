"""Plan and commit by hand: which rows a step computes, and what its outcome means for the clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from making import LETTERS, held, names, play, request, rows, scheduler, told

from reame.core.batch import Batch, Forget, Output, StepResult, Trim
from reame.core.events import Finish, TokenLogprob
from reame.core.rows import _share
from reame.core.sequence import Sequence
from reame.errors import EngineError, RequestError

if TYPE_CHECKING:
    from reame.core.scheduler import Scheduler


def decoding(loop: Scheduler, *words: str, **drafts: tuple[int, ...]) -> None:
    """One short sequence for each of the letters, decoding, with drafts for the next step."""
    for word in words:
        loop.add(request(word, word, 50), 0.0)
    play(loop, seconds=0.001, drafts=drafts)


def logprobs(*tokens: int) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token, LETTERS[token : token + 1], -float(token)) for token in tokens)


def commit(loop: Scheduler, batch: Batch | None, *outputs: Output, now: float = 0.0) -> None:
    assert batch is not None
    loop.commit(batch, StepResult(outputs=outputs, seconds=0.001), now)


class TestRows:
    def test_decoding_sequences_come_first_and_a_prompt_gets_the_rest(self) -> None:
        loop = scheduler(max_running=4, max_rows=10)
        decoding(loop, "x", "y")
        loop.add(request("long", "abcdefghijklmnopqrst"), 0.0)
        batch = loop.plan(0.0)
        assert batch is not None
        assert list(rows(batch).items()) == [("x", 1), ("y", 1), ("long", 8)]
        assert [part.samples for part in batch.slices] == [True, True, False]

    @pytest.mark.parametrize(
        ("per_row", "beside_one", "alone"),
        [
            (0.01, 7, 12),  # 0.08 s are 8 rows, one of them decodes; 0.12 s are 12
            (0.001, 15, 16),  # as many as a step may have
            (1.0, 2, 2),  # never less than min_chunk
        ],
    )
    def test_a_chunk_stays_within_the_time_of_a_step(self, per_row: float, beside_one: int, alone: int) -> None:
        loop = scheduler(step_seconds=0.08, prefill_seconds=0.12)
        loop.add(request("long", [1] * 40), 0.0)
        for count in (1, 2, 8, 12, 16):
            loop.cost.observe(count, per_row * count)
        assert rows(loop.plan(0.0)) == {"long": alone}

        loop = scheduler(step_seconds=0.08, prefill_seconds=0.12)
        decoding(loop, "x")
        loop.add(request("long", [1] * 40), 0.0)
        loop.cost._seconds.clear()
        for count in (1, 2, 8, 12, 16):
            loop.cost.observe(count, per_row * count)
        assert rows(loop.plan(0.0)) == {"x": 1, "long": beside_one}

    def test_what_a_step_took_decides_the_next_chunk(self) -> None:
        loop = scheduler(max_rows=64, prefill_seconds=0.1)
        loop.add(request("long", [1] * 90, 2), 0.0)
        assert rows(play(loop, seconds=0.4)) == {"long": 20}  # 5 ms a row assumed, 20 measured
        assert rows(loop.plan(0.0)) == {"long": 5}

    def test_a_full_step_of_decoding_rows_still_moves_a_prompt(self) -> None:
        loop = scheduler(max_running=3, max_rows=3)
        decoding(loop, "x", "y")
        loop.add(request("long", "abcdef"), 0.0)
        assert rows(loop.plan(0.0)) == {"x": 1, "y": 1, "long": 1}


class TestShare:
    def share(self, room: int, *missing: int) -> list[int]:
        sequences = []
        for number, count in enumerate(missing):
            sequence = Sequence.new(request(str(number), [1] * count), 0.0)
            sequence.order = number + 1
            sequences.append(sequence)
        assert [sequence for sequence, _ in _share(sequences, room)] == sequences
        return [granted for _, granted in _share(sequences, room)]

    def test_a_short_prompt_overtakes_a_long_one_that_keeps_a_quarter(self) -> None:
        assert self.share(16, 100, 5) == [11, 5]
        assert self.share(16, 100, 12) == [4, 12]
        assert self.share(16, 100, 14) == [4, 12]

    def test_the_shortest_first_then_the_older(self) -> None:
        assert self.share(8, 100, 100, 4) == [4, 0, 4]
        assert self.share(12, 3, 9, 9, 2) == [3, 7, 0, 2]

    def test_the_oldest_moves_even_in_the_smallest_step(self) -> None:
        assert self.share(1, 100, 2) == [1, 0]
        assert self.share(3, 100, 2) == [1, 2]

    def test_nobody_gets_more_than_it_misses(self) -> None:
        assert self.share(100, 2, 3) == [2, 3]
        assert self.share(8) == []


class TestDrafts:
    def test_a_draft_stays_within_the_reserved_cells(self) -> None:
        """ "x" has 1 + 4 cells; it knows 2 tokens, so 3 more may be guessed."""
        loop = scheduler()
        decoding(loop, "x", x=(5, 5, 5, 5, 5, 5))
        assert rows(loop.plan(0.0)) == {"x": 4}

    def test_a_draft_leaves_one_token_to_be_drawn(self) -> None:
        loop = scheduler()
        loop.add(request("x", "x", 3), 0.0)
        play(loop, drafts={"x": (5, 5, 5)})
        assert rows(loop.plan(0.0)) == {"x": 2}  # 1 of 3 is drawn, the last comes from the draft's row

    def test_a_draft_is_for_one_step(self) -> None:
        loop = scheduler()
        decoding(loop, "x", x=(5, 5))
        play(loop, {"x": [2]})
        assert rows(loop.plan(0.0)) == {"x": 1}

    def test_drafts_leave_room_for_a_prompt(self) -> None:
        loop = scheduler(max_rows=6, min_chunk=3)
        decoding(loop, "x", x=(5, 5, 5))
        loop.add(request("long", "abcdefgh"), 0.0)
        assert rows(loop.plan(0.0)) == {"x": 3, "long": 3}

    def test_drafts_leave_logits_for_all_who_may_need_them(self) -> None:
        loop = scheduler(max_sampled=4)
        decoding(loop, "x", "y", x=(5, 5, 5), y=(6, 6, 6))
        assert rows(loop.plan(0.0)) == {"x": 3, "y": 1}

    def test_accepted_guesses_become_cells_and_text_refused_ones_nothing(self) -> None:
        loop = scheduler()
        decoding(loop, "x", x=(2, 3, 4))
        told(loop)
        play(loop, {"x": [2, 3, 9]})
        assert held(loop.admission)[0] == [24, 1, 2, 3]
        assert loop.running[0].tokens == [24, 1, 2, 3, 9]
        assert told(loop) == {"x": ["bci"]}
        assert loop.admission.slots.num_garbage == 1

    def test_an_end_inside_a_draft_is_the_end(self) -> None:
        loop = scheduler()
        decoding(loop, "x", x=(2, 0, 4))
        told(loop)
        play(loop, {"x": [2, 0]})
        assert told(loop) == {"x": ["b", "<stop>"]}
        assert held(loop.admission)[0] == [24, 1, 2]

    def test_a_stop_string_inside_a_draft_is_the_end_but_the_cells_are_good(self) -> None:
        loop = scheduler()
        loop.add(request("x", "x", 50, stop=("bc",)), 0.0)
        play(loop, drafts={"x": (2, 3, 4)})
        play(loop, {"x": [2, 3, 4, 5]})
        assert told(loop) == {"x": ["a", "<stop>"]}
        assert held(loop.admission)[0] == [24, 1, 2, 3, 4]


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
        loop.commit(batch, StepResult(seconds=0.1, error=EngineError("no")), 0.0)
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
