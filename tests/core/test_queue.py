"""Whose turn it is: first come first served for each key, and the keys in turn."""

from __future__ import annotations

from making import names, request

from reame.core.queue import FairQueue
from reame.core.sequence import Sequence


def wait(queue: FairQueue, *words: str) -> dict[str, Sequence]:
    """Sequences "a1", "b7", ... whose first letter is their key."""
    came = {word: Sequence.new(request(word, "a", key=word[0]), 0.0) for word in words}
    for sequence in came.values():
        queue.add(sequence)
    return came


def order(queue: FairQueue) -> list[str]:
    return names(list(queue))


def serve(queue: FairQueue) -> str:
    first = next(iter(queue))
    queue.take(first)
    return first.request.id


def test_a_key_with_many_waiting_does_not_hold_up_the_others() -> None:
    queue = FairQueue()
    wait(queue, "a1", "a2", "a3", "b1", "c1", "b2")
    assert len(queue) == 6
    assert order(queue) == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert [serve(queue) for _ in range(6)] == ["a1", "b1", "c1", "a2", "b2", "a3"]
    assert len(queue) == 0


def test_who_comes_while_others_are_served_waits_one_turn_only() -> None:
    queue = FairQueue()
    wait(queue, "a1", "a2", "a3")
    assert serve(queue) == "a1"
    wait(queue, "b1")
    assert serve(queue) == "a2"
    wait(queue, "b2", "a4")
    assert [serve(queue) for _ in range(4)] == ["b1", "a3", "b2", "a4"]


def test_a_key_that_is_served_out_of_turn_goes_to_the_end() -> None:
    queue = FairQueue()
    came = wait(queue, "a1", "a2", "b1", "b2")
    queue.take(came["a2"])  # a1 waits for a prefix, a2 does not
    assert order(queue) == ["b1", "a1", "b2"]


def test_the_preempted_are_next_the_oldest_of_them_first() -> None:
    queue = FairQueue()
    wait(queue, "a1", "b1")
    young, old = (Sequence.new(request(name, "a", key="b"), 0.0) for name in ("b-young", "b-old"))
    queue.put_back(young)
    queue.put_back(old)
    assert order(queue) == ["b-old", "a1", "b-young", "b1"]
    stranger = Sequence.new(request("c1", "a", key="c"), 0.0)
    queue.put_back(stranger)
    assert order(queue)[0] == "c1"


def test_who_gives_up_changes_nobodys_turn() -> None:
    queue = FairQueue()
    came = wait(queue, "a1", "b1", "b2", "c1")
    queue.discard(came["b1"])
    assert order(queue) == ["a1", "b2", "c1"]
    queue.discard(came["b1"])
    queue.discard(came["b2"])
    queue.discard(came["b2"])
    assert order(queue) == ["a1", "c1"]
    wait(queue, "b3")
    assert order(queue) == ["a1", "c1", "b3"]
