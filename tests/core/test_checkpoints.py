"""Where states are kept that cannot be cut: blocks of four tokens, two tokens are worth waiting for."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from making import LETTERS, play, request, rows

from reame.core.batch import Copy, Save
from reame.core.checkpoints import in_equal_parts, in_turn
from reame.core.limits import Limits
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots

LIMITS = Limits(
    max_running=2, max_rows=64, reserve=8, min_wait=2, min_chunk=2, stride=20, trail=8, step_seconds=9,
    prefill_seconds=9, lone_seconds=9,
)  # fmt: skip
STEM = "abcdefghij"


def scheduler(num_seqs: int = 6, *, whole_state: bool = True, block_tokens: int = 4) -> Scheduler:
    return Scheduler(
        Slots(200, num_seqs, whole_state=whole_state), LIMITS, piece=lambda token: LETTERS[token : token + 1],
        eog_tokens=frozenset({0}), block_tokens=block_tokens,
    )  # fmt: skip


def finish(loop: Scheduler) -> list[dict[str, int]]:
    """Rows of each step until all is done."""
    steps = []
    while loop.sequences():
        steps.append(rows(play(loop)))
    return steps


def kept(loop: Scheduler) -> list[str]:
    slots = loop.admission.slots.residents()
    return sorted("".join(chr(LETTERS[token]) for token in slot.tokens) for slot in slots)


def test_before_the_end_of_a_prompt_and_where_it_ends() -> None:
    """13 tokens: the last must be computed for its logits, and 12 are three blocks."""
    loop = scheduler()
    loop.add(request("one", STEM + "klm", max_tokens=2), 0.0)
    assert [step["one"] for step in finish(loop)] == [12, 1, 1]
    assert kept(loop) == [STEM + "kl", STEM + "klma"]


def test_a_short_prompt_is_read_in_one_step() -> None:
    loop = scheduler()
    loop.add(request("one", "abcdefg", max_tokens=2), 0.0)
    assert [step["one"] for step in finish(loop)] == [7, 1]
    assert kept(loop) == ["abcdefga"]


def test_a_model_whose_cells_can_be_cut_keeps_nothing_more() -> None:
    loop = scheduler(whole_state=False)
    loop.add(request("one", STEM + "klm", max_tokens=2), 0.0)
    assert [step["one"] for step in finish(loop)] == [13, 1]
    assert kept(loop) == [STEM + "klma"]


def test_a_long_prompt_is_cut_a_few_times() -> None:
    """79 tokens, every 20 of them; a last mark would save no more than it costs."""
    loop = scheduler()
    loop.add(request("one", [1 + i * i % 26 for i in range(79)], max_tokens=1), 0.0)
    assert [step["one"] for step in finish(loop)] == [20, 20, 20, 16, 3]
    assert sorted(len(slot.tokens) for slot in loop.admission.slots.residents()) == [20, 40, 60, 76, 79]


def test_two_that_come_together_compute_their_beginning_once() -> None:
    loop = scheduler()
    loop.add(request("one", STEM + "pq", max_tokens=1), 0.0)
    two = loop.add(request("two", STEM + "xyz", max_tokens=1), 0.0)
    assert rows(play(loop)) == {"one": 8}, "the second text leaves the first behind the tenth token"
    assert rows(play(loop)) == {"one": 4, "two": 5}
    assert two.num_cached == 8


def test_where_a_later_text_leaves_a_finished_one_is_kept_for_the_third() -> None:
    loop = scheduler()
    for name, ending in (("one", "p"), ("two", "qq"), ("three", "rrr")):
        sequence = loop.add(request(name, STEM + ending, max_tokens=1), 0.0)
        finish(loop)
    assert sequence.num_cached == 8
    assert "abcdefgh" in kept(loop)


def test_the_next_turn_begins_where_the_last_ended() -> None:
    loop = scheduler()
    loop.add(request("one", "abcdefg", max_tokens=3), 0.0)
    finish(loop)
    turn = loop.add(request("two", "abcdefgaaaxyz", max_tokens=1), 0.0)
    finish(loop)
    assert turn.num_cached == 9, "the last token of an answer is not computed"
    assert "abcdefgaa" in kept(loop), "and the state is still there for another try"


@pytest.mark.parametrize("max_tokens", [30, 0])
def test_what_was_put_back_and_comes_again_pushes_out_nobody(max_tokens: int) -> None:
    """Of work in the background, records and prompts to be warmed, that leaves its slot whenever a person comes."""
    loop = scheduler(num_seqs=3)
    loop.add(request("person", "abcdefg", max_tokens=2), 0.0)
    finish(loop)
    behind = loop.add(evolve(request("behind", "xyzuvw" * 9, max_tokens=max_tokens), background=True), 0.0)
    for _ in range(3):
        play(loop)
        loop.admission.preemption._put_back(behind)
    play(loop)
    assert "abcdefga" in kept(loop)
    assert behind.num_computed > 18


def test_of_an_answer_only_the_last_state_is_kept_and_saved_after_it() -> None:
    loop = scheduler()
    loop.add(request("one", "abc", max_tokens=20), 0.0)
    saves: list[Save] = []
    for _ in range(19):
        batch = play(loop, {"one": [2]}, seconds=1.0)
        saves += [op for op in batch.operations if isinstance(op, Save)]
    assert kept(loop) == ["abc" + 13 * "b"], "16 are two times eight; the one at eight was given up for it"
    assert saves == []
    play(loop, {"one": [2]})
    batch = loop.plan(0.0)
    assert batch is not None
    (save,) = batch.operations[-1:]
    assert isinstance(save, Save)
    assert (len(save.tokens), save.start, save.block_tokens) == (16, 0, 16)


def test_who_needs_a_place_gets_that_of_the_oldest_state() -> None:
    loop = scheduler(num_seqs=3)
    for number in range(4):
        loop.add(request(f"r{number}", [5 + number] * 13, max_tokens=1), 0.0)
        finish(loop)
    assert sorted(len(slot.tokens) for slot in loop.admission.slots.residents()) == [12, 13, 13]


def test_records_done_in_the_background_leave_only_what_they_share() -> None:
    loop = scheduler()
    for name, ending in (("one", "pqrstuv"), ("two", "xyzxyz")):
        record = evolve(request(name, STEM + ending, max_tokens=1), background=True)
        loop.add(record, 0.0)
    copies: list[Copy] = []
    while loop.sequences():
        batch = play(loop)
        copies += [op for op in batch.operations if isinstance(op, Copy)]
    assert {copy.length for copy in copies} == {8}


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6))
def test_places_are_all_of_a_step_and_rise_within_each_sequence(lengths: list[int]) -> None:
    for places in (in_turn(lengths), in_equal_parts(lengths)):
        assert [len(each) for each in places] == lengths
        assert sorted(place for each in places for place in each) == list(range(sum(lengths)))
        assert all(each == sorted(each) for each in places)


@pytest.mark.parametrize(
    ("lengths", "places"),
    [([3], [[0, 1, 2]]), ([1, 3], [[0], [1, 2, 3]]), ([2, 1, 3], [[0, 3], [1], [2, 4, 5]])],
)
def test_equal_parts_by_hand(lengths: list[int], places: list[list[int]]) -> None:
    assert in_equal_parts(lengths) == places
