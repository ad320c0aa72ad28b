"""Sequences that only compute their prompt: last in line, out of the way at once, free when there is nothing to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import evolve
from making import held, names, play, request, resident, rows, scheduler

from reame.core.events import Delta, Finish
from reame.core.queue import FairQueue
from reame.core.sequence import Sequence

if TYPE_CHECKING:
    from reame.core.request import Request
    from reame.core.scheduler import Scheduler


def warm(name: str, prompt: str | list[int], *, key: str = "") -> Request:
    return evolve(request(name, prompt, 0, key=key), background=True)


def words(loop: Scheduler) -> dict[str, list[int | str]]:
    """What each was told: tokens computed, then how it ended."""
    events: dict[str, list[int | str]] = {}
    for sequence, event in loop.take_events():
        word = event.num_computed if isinstance(event, Delta) else str(event.reason)
        events.setdefault(sequence.request.id, []).append(word)
    return events


def test_all_of_a_prompt_but_its_last_token_is_computed() -> None:
    loop = scheduler(max_rows=4)
    sequence = loop.add(warm("w", "abcdefghi"), 0.0)
    assert [rows(play(loop)) for _ in range(2)] == [{"w": 4}, {"w": 4}]
    batch = loop.plan(0.0)
    assert batch is None or not batch.slices
    assert words(loop) == {"w": [4, 8, "stop"]}
    assert held(loop.admission)[0] == list(range(1, 9))
    usage = sequence.usage()
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (9, 0, 0)


def test_it_gives_way_in_the_next_step_and_goes_on_from_where_it_was() -> None:
    loop = scheduler(max_rows=4)
    loop.add(warm("w", "abcdefghi"), 0.0)
    play(loop)
    loop.add(request("a", "xyz", 2), 0.0)
    assert [rows(play(loop)) for _ in range(3)] == [{"a": 3}, {"a": 1}, {"w": 4}]
    assert loop.admission.preemption.num_preempted == 0  # that counts who was put back for want of cells


def test_it_does_not_begin_beside_others() -> None:
    loop = scheduler(max_running=3)
    loop.add(request("a", "xyz", 3), 0.0)
    play(loop)
    loop.add(warm("w", "abcdefghi"), 0.0)
    assert [rows(play(loop)) for _ in range(3)] == [{"a": 1}, {"a": 1}, {"w": 8}]


def test_who_gave_way_comes_back_in_the_old_order() -> None:
    loop = scheduler(max_rows=4, max_running=2)
    for name, prompt in (("first", "abcdefgh"), ("second", "ijklmnop")):
        loop.add(warm(name, prompt), 0.0)
    play(loop)
    loop.add(request("a", "xyz", 1), 0.0)
    play(loop)
    assert names(loop.waiting()) == ["first", "second"]
    play(loop)
    assert names(loop.running) == ["first", "second"]


def test_a_prefix_that_it_began_is_taken_over_by_who_needs_it_now() -> None:
    loop = scheduler(max_rows=4)
    loop.add(warm("w", "abcdefghi"), 0.0)
    play(loop)
    asking = loop.add(request("a", "abcdefgxy", 1), 0.0)
    assert rows(play(loop)) == {"a": 4}
    assert asking.num_cached == 4


def test_what_is_computed_needs_no_slot_and_pushes_out_nobody() -> None:
    """All three slots are full; a copy of the long one's beginning would cost the oldest resident its place."""
    loop = scheduler(num_seqs=3)
    slots = loop.admission.slots
    resident(slots, [9, 9, 9])
    resident(slots, [1, 2, 3, 4, 5, 6])
    resident(slots, [8, 8])
    before = held(loop.admission)
    sequence = loop.add(warm("w", [1, 2, 3, 4]), 0.0)
    batch = loop.plan(1.0)
    assert batch is None or not batch.slices
    assert held(loop.admission) == before
    assert words(loop) == {"w": ["stop"]}
    assert sequence.usage().cached_tokens == 3
    assert (sequence.slot, loop.sequences()) == (None, [])
    assert slots.residents()[-1] is slots.slots[1]  # used just now


def test_one_that_was_put_back_and_finds_the_rest_done_by_another_ends() -> None:
    loop = scheduler(max_rows=4)
    sequence = loop.add(warm("w", "abcdefghi"), 0.0)
    play(loop)
    loop.add(request("a", "abcdefghij", 1), 0.0)
    while any(s.request.id == "a" for s in loop.sequences()):
        play(loop)
    loop.plan(0.0)
    ends = [event for told, event in loop.take_events() if told is sequence and isinstance(event, Finish)]
    assert [(end.reason, end.usage.cached_tokens) for end in ends] == [("stop", 0)]


def test_a_keys_background_work_takes_no_turn_from_its_other_requests() -> None:
    queue = FairQueue()
    for number in range(3):
        queue.add(Sequence.new(warm(f"w{number}", "a", key="ann"), 0.0))
    for number in range(2):
        queue.add(Sequence.new(request(f"b{number}", "a", key="bob"), 0.0))
    queue.add(Sequence.new(request("a0", "a", key="ann"), 0.0))
    urgent = [sequence.request.id for sequence in queue if not sequence.request.background]
    assert urgent == ["b0", "a0", "b1"]


def record(name: str, prompt: str, max_tokens: int) -> Request:
    return evolve(request(name, prompt, max_tokens), background=True)


def test_a_record_leaves_nothing_behind_that_a_later_one_has() -> None:
    """Three records, two slots: the instruction is computed once, and in the end only the last one has cells."""
    loop = scheduler(num_seqs=4, max_running=2, max_rows=16)
    for name in "xyz":
        loop.add(record(name, f"abcdefghijk{name}", 2), 0.0)
    computed = 0
    while loop.sequences():
        computed += sum(rows(play(loop)).values())
    assert computed == len("abcdefghijk") + 3 + 3  # a last token of each prompt, and one that was drawn
    kept = [tokens for tokens in held(loop.admission) if tokens]
    assert len(kept) == 1


def test_what_a_person_left_behind_stays_during_a_batch() -> None:
    loop = scheduler(num_seqs=4, max_running=2)
    resident(loop.admission.slots, [9, 9, 9])
    for number in range(6):
        loop.add(record(f"r{number}", f"tell{'abcdef'[number]}", 3), 0.0)
    while loop.sequences():
        play(loop)
    assert [9, 9, 9] in held(loop.admission)
