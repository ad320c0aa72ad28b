"""Which rows a step computes: decoding first, prompts within the time of a step, drafts where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from making import cheap_rows, held, play, request, rows, scheduler, sure, told

from reame.core.batch import Output, StepResult
from reame.core.events import Delta
from reame.core.rows import QUIET_STEPS, _share
from reame.core.sequence import Sequence

if TYPE_CHECKING:
    from reame.core.scheduler import Scheduler


def decoding(loop: Scheduler, *words: str, **drafts: tuple[int, ...]) -> None:
    """One short sequence for each of the letters, decoding, with drafts for the next step."""
    for word in words:
        loop.add(request(word, word, 50), 0.0)
    if drafts:
        cheap_rows(loop)
    play(loop, seconds=0.010 if drafts else 0.001, drafts=drafts)


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
        loop = scheduler(step_seconds=0.08, lone_seconds=0.12)
        loop.add(request("long", [1] * 40), 0.0)
        for count in (1, 2, 8, 12, 16):
            loop.cost.observe(count, per_row * count)
        assert rows(loop.plan(0.0)) == {"long": alone}

        loop = scheduler(step_seconds=0.08, lone_seconds=0.12)
        decoding(loop, "x")
        loop.add(request("long", [1] * 40), 0.0)
        loop.cost._seconds.clear()
        for count in (1, 2, 8, 12, 16):
            loop.cost.observe(count, per_row * count)
        assert rows(loop.plan(0.0)) == {"x": 1, "long": beside_one}

    @pytest.mark.parametrize(
        ("prompts", "background", "rows_of_the_step"),
        [
            (("long",), False, 15),  # nobody else would feel it: lone_seconds
            (("long", "other"), False, 10),  # prefill_seconds: the other waits for the end of the step
            (("long",), True, 10),  # a person may come
            (("x", "long"), True, 10),  # nobody reads along what a batch decodes
            (("x", "long"), False, 5),  # step_seconds
        ],
    )
    def test_a_step_is_as_long_as_those_who_feel_it_can_bear(
        self, prompts: tuple[str, ...], background: bool, rows_of_the_step: int
    ) -> None:
        loop = scheduler(step_seconds=0.05, prefill_seconds=0.10, lone_seconds=0.15)
        for name in prompts:
            if name == "x":
                loop.add(evolve(request("x", "x", 50), background=background), 0.0)
                play(loop)
            else:
                tokens = [len(name)] * 40  # of their own, else the other would wait for this one's
                loop.add(evolve(request(name, tokens), background=background), 0.0)
        loop.cost._seconds.clear()
        for count in (1, 2, 8, 16):
            loop.cost.observe(count, 0.01 * count)
        assert sum(rows(loop.plan(0.0)).values()) == rows_of_the_step

    def test_where_nobody_but_a_batch_was_for_long_its_steps_are_long(self) -> None:
        loop = scheduler(1000, prefill_seconds=0.10, lone_seconds=0.15)

        def rows_for_the_batch() -> int:
            loop.cost._seconds.clear()
            for count in (1, 2, 8, 16):
                loop.cost.observe(count, 0.01 * count)
            (number,) = rows(loop.plan(0.0)).values()
            return number

        loop.add(evolve(request("a", "a", QUIET_STEPS), background=True), 0.0)
        for _ in range(QUIET_STEPS):
            play(loop)
        record = loop.add(evolve(request("record", [1] * 90), background=True), 0.0)
        assert rows_for_the_batch() == 15
        loop.cancel(record)
        loop.add(request("b", "b", 1), 0.0)
        play(loop)
        loop.add(evolve(request("record", [2] * 90), background=True), 0.0)
        assert rows_for_the_batch() == 10

    @pytest.mark.parametrize(
        ("per_row", "chunk"),
        [
            (0.010, 12),  # 0.12 s are 12 rows, three groups
            (0.0095, 12),  # 12.6 rows
            (0.012, 12),  # 10 rows: the half is rounded up
            (0.0132, 8),  # 9.1 rows
            (0.001, 16),  # as many as a step may have
            (1.0, 4),  # min_chunk, of two rows, is rounded as well
        ],
    )
    def test_a_chunk_alone_fills_whole_groups_of_rows(self, per_row: float, chunk: int) -> None:
        loop = scheduler(lone_seconds=0.12, row_group=4)
        loop.add(request("long", [1] * 40), 0.0)
        for count in (1, 2, 8, 12, 16):
            loop.cost.observe(count, per_row * count)
        assert rows(loop.plan(0.0)) == {"long": chunk}

    @pytest.mark.parametrize(
        ("per_row", "chunk"),
        [
            (0.010, 6),  # 0.08 s are 8 rows, two of which decode
            (0.0132, 6),  # 6.1 rows
            (0.016, 2),  # 5 rows
            (1.0, 2),  # two that decode and min_chunk, one group
        ],
    )
    def test_a_chunk_fills_the_group_of_the_rows_that_decode(self, per_row: float, chunk: int) -> None:
        loop = scheduler(max_running=3, step_seconds=0.08, row_group=4)
        decoding(loop, "x", "y")
        loop.add(request("long", [1] * 40), 0.0)
        loop.cost._seconds.clear()
        for count in (1, 2, 8, 12, 16):
            loop.cost.observe(count, per_row * count)
        assert rows(loop.plan(0.0)) == {"x": 1, "y": 1, "long": chunk}

    def test_a_prompt_moves_also_beside_a_full_group(self) -> None:
        loop = scheduler(max_running=4, row_group=3, min_chunk=1)
        decoding(loop, "x", "y", "z")
        loop.cost._seconds.clear()
        loop.cost.observe(1, 9.0)
        loop.add(request("long", [1] * 40), 0.0)
        assert rows(loop.plan(0.0)) == {"x": 1, "y": 1, "z": 1, "long": 1}

    def test_what_a_step_took_decides_the_next_chunk(self) -> None:
        loop = scheduler(max_rows=64, lone_seconds=0.1)
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
        cheap_rows(loop)
        loop.add(request("x", "x", 3), 0.0)
        play(loop, drafts={"x": (5, 5, 5)})
        assert rows(loop.plan(0.0)) == {"x": 2}  # 1 of 3 is drawn, the last comes from the draft's row

    def test_a_draft_is_for_one_step(self) -> None:
        loop = scheduler()
        decoding(loop, "x", x=(5, 5))
        play(loop, {"x": [2]})
        assert rows(loop.plan(0.0)) == {"x": 1}

    def test_drafts_take_what_a_prompt_leaves(self) -> None:
        loop = scheduler(max_rows=6, min_chunk=3)
        decoding(loop, "x", x=(5, 5, 5))
        loop.add(request("long", "abc"), 0.0)
        assert rows(loop.plan(0.0)) == {"x": 3, "long": 3}

    def test_drafts_leave_logits_for_all_who_may_need_them(self) -> None:
        loop = scheduler(max_sampled=4)
        decoding(loop, "x", "y", x=(5, 5, 5), y=(6, 6, 6))
        assert rows(loop.plan(0.0)) == {"x": 3, "y": 1}

    def test_beside_others_a_draft_keeps_a_step_within_its_time(self) -> None:
        loop = scheduler(step_seconds=0.020, max_rows=32, max_sampled=32, reserve=30)
        decoding(loop, "x", "y", x=(5,) * 20)
        loop.cost._seconds.clear()
        loop.cost.seed({2: 0.010, 20: 0.028})
        assert rows(loop.plan(0.0)) == {"x": 11, "y": 1}

    def test_forced_tokens_are_rows_of_the_next_step_and_a_draft_follows_them(self) -> None:
        loop = scheduler(reserve=10)
        cheap_rows(loop)
        loop.add(request("x", "x", 50), 0.0)
        batch = loop.plan(0.0)
        assert batch is not None
        loop.commit(batch, StepResult(outputs=[Output((1, 2, 3), draft=sure(4, 5))], seconds=0.01), 0.0)
        assert told(loop) == {"x": ["abc"]}
        batch = loop.plan(0.0)
        assert batch is not None
        assert [(part.tokens, part.num_drafted, part.samples) for part in batch.slices] == [((1, 2, 3, 4, 5), 2, True)]
        assert loop.only_decodes

    def test_beside_others_forced_tokens_keep_a_step_within_its_time(self) -> None:
        loop = scheduler(step_seconds=0.020, max_rows=32, reserve=40)
        decoding(loop, "y")
        loop.add(request("x", "x", 50), 0.0)
        batch = loop.plan(0.0)
        assert batch is not None
        outputs = [Output((1,)), Output((1,) * 20)]
        loop.commit(batch, StepResult(outputs=outputs, seconds=0.01), 0.0)
        loop.cost._seconds.clear()
        loop.cost.seed({2: 0.010, 20: 0.028})
        assert rows(loop.plan(0.0)) == {"y": 1, "x": 11}

    def test_forced_tokens_that_do_not_fit_wait_for_the_next_step(self) -> None:
        loop = scheduler(max_rows=3)
        decoding(loop, "y")
        loop.add(request("x", "x", 50), 0.0)
        batch = loop.plan(0.0)
        assert batch is not None
        outputs = [Output((1,)), Output((1, 2, 3, 4), draft=sure(9))]
        loop.commit(batch, StepResult(outputs=outputs, seconds=0.01), 0.0)
        assert rows(play(loop)) == {"y": 1, "x": 2}
        assert rows(play(loop)) == {"y": 1, "x": 2}
        assert loop.running[1].num_missing == 1

    def test_what_an_answer_is_forced_to_begin_with_is_told_with_what_follows(self) -> None:
        """A client takes the first piece for the end of reading, and measures from there."""
        loop = scheduler()
        loop.add(evolve(request("x", "x", 4, logprobs=1), forced=(1, 2)), 0.0)
        assert loop.take_events() == []
        assert rows(play(loop)) == {"x": 3}
        (delta,) = [event for _, event in loop.take_events()]
        assert isinstance(delta, Delta)
        assert delta.text == "aba"
        assert [each.logprob for each in delta.logprobs] == [0.0, 0.0]
        play(loop)
        assert told(loop) == {"x": ["a", "<length>"]}

    def test_a_stop_string_that_is_forced_ends_it_before_it_ran(self) -> None:
        loop = scheduler()
        loop.add(evolve(request("x", "x", 4, stop=("b",)), forced=(1, 2)), 0.0)
        assert told(loop) == {"x": ["a", "<stop>"]}
        assert not loop.sequences()

    def test_the_end_of_what_a_constraint_allows_is_the_end(self) -> None:
        loop = scheduler()
        loop.add(request("x", "x", 50), 0.0)
        batch = loop.plan(0.0)
        assert batch is not None
        loop.commit(batch, StepResult(outputs=[Output((1, 2), is_over=True)], seconds=0.01), 0.0)
        assert told(loop) == {"x": ["ab", "<stop>"]}

    def test_what_drafts_gave_is_counted_for_their_source_and_their_request(self) -> None:
        """T(1) 10 ms, the step of 4 rows took 16: two tokens accepted save 20 ms and cost 6."""
        loop = scheduler()
        decoding(loop, "x", x=(2, 3, 4))
        play(loop, {"x": [2, 3, 9]}, seconds=0.016)
        for count in (loop.drafts["test"], loop.running[0].drafts):
            assert (count.proposed, count.accepted) == (3, 2)
            assert count.seconds == pytest.approx(0.014)

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
        cheap_rows(loop)
        loop.add(request("x", "x", 50, stop=("bc",)), 0.0)
        play(loop, drafts={"x": (2, 3, 4)})
        play(loop, {"x": [2, 3, 4, 5]})
        assert told(loop) == {"x": ["a", "<stop>"]}
        assert held(loop.admission)[0] == [24, 1, 2, 3, 4]
