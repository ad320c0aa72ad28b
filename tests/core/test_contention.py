"""Two who want the same: cells, of which there are too few (preemption), or a prefix in the making (single flight)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from making import names, play, request, rows, scheduler, told

from reame.core.batch import Compact, Copy, Forget, Trim

if TYPE_CHECKING:
    from reame.core.scheduler import Scheduler


class TestPreemption:
    """12 cells, reserve 2: a and b get 3 + 2 each. They draw a token a step; when they hold 6 each, nothing is left."""

    def full(self) -> Scheduler:
        loop = scheduler(num_cells=12, reserve=2, num_seqs=3, max_running=3)
        loop.add(request("a", "xxx", 8, key="a"), 0.0)
        loop.add(request("b", "yyy", 8, key="b"), 1.0)
        for _ in range(4):
            play(loop, {"a": [24], "b": [25]})
        assert [len(s.tokens) for s in loop.running] == [7, 7]
        assert [s.num_reserved for s in loop.running] == [6, 6]
        assert loop.admission.slots.num_free == 0
        return loop

    def test_the_youngest_makes_room_and_its_client_hears_nothing(self) -> None:
        loop = self.full()
        told(loop)
        batch = play(loop, {"a": [24]}, drafts={"a": (24,)})
        assert batch.operations[0] == Trim(1, 0)
        assert isinstance(batch.operations[1], Compact)
        assert rows(batch) == {"a": 1}
        assert names(loop.waiting()) == ["b"]
        assert told(loop) == {"a": ["x"]}
        assert loop.admission.preemption.num_preempted == 1
        assert loop.running[0].num_reserved == 9  # a whole reserve more, beyond the 7 it needs

    def test_it_goes_on_later_where_it_was_before_all_newcomers(self) -> None:
        loop = self.full()
        told(loop)
        loop.add(request("c", "z", 1, key="c"), 0.0)
        loop.add(request("b2", "z", 1, key="b"), 0.0)
        play(loop, {"a": [24]})
        assert names(loop.waiting()) == ["b", "c", "b2"]
        play(loop, {"a": [0]})  # a ends
        batch = loop.plan(0.0)
        assert names(loop.running) == ["b", "c", "b2"]
        assert rows(batch)["b"] == 7
        assert loop.running[0].num_cached == 0  # of when it first got a slot

    def test_a_preempted_draft_is_forgotten(self) -> None:
        loop = scheduler(num_cells=12, reserve=2, num_seqs=3)
        loop.add(request("a", "xxx", 8), 0.0)
        loop.add(request("b", "yyy", 8), 0.0)
        for _ in range(4):
            play(loop, {"a": [24], "b": [25]}, drafts={"b": (9, 9)})
        play(loop)
        assert loop.waiting()[0].draft is None

    def test_the_youngest_steps_back_itself_when_the_older_have_enough(self) -> None:
        loop = scheduler(num_cells=12, reserve=2, num_seqs=3)
        loop.add(request("a", "xxxxx", 4), 0.0)  # 8 cells at most, 7 at first
        loop.add(request("b", "yy", 8), 0.0)  # 4 at first
        for _ in range(4):
            batch = play(loop)
            assert set(rows(batch)) == {"a", "b"} or loop.admission.preemption.num_preempted
        assert loop.admission.preemption.num_preempted == 1
        assert names(loop.waiting()) == ["b"]
        assert told(loop)["a"][-1] == "<length>"
        batch = play(loop)  # nobody needed b's cells, so it goes on where it stood; now a's make room
        assert (rows(batch), batch.operations[:2]) == ({"b": 1}, (Forget("a"), Trim(0, 0)))


class TestSingleFlight:
    def test_who_shares_a_prefix_in_the_making_waits_for_it_and_holds_up_nobody(self) -> None:
        """a computes 16 of its 20 tokens in a step; b shares 12 of them; c nothing."""
        loop = scheduler(max_running=3)
        loop.add(request("a", "abcdefghijklmnopqrst"), 0.0)
        loop.add(request("b", "abcdefghijklzz"), 0.0)
        loop.add(request("c", "z"), 0.0)
        assert names(loop.waiting()) == ["a", "b", "c"]
        play(loop)
        assert names(loop.running) == ["a", "c"]
        batch = play(loop)
        assert batch.operations == (Copy(0, 2, 12),)
        assert rows(batch)["b"] == 2
        assert loop.running[2].num_cached == 12

    def test_a_few_tokens_are_not_worth_waiting_for(self) -> None:
        loop = scheduler()
        loop.add(request("a", "abcxxxxx"), 0.0)
        loop.add(request("b", "abcyyyyy"), 0.0)
        play(loop)
        assert names(loop.running) == ["a", "b"]

    def test_the_last_token_which_is_computed_anyway_is_not_worth_waiting_for(self) -> None:
        """b is the beginning of a, which has computed 4 of b's 8: 3 more would be shared, one less than `min_wait`."""
        loop = scheduler(max_rows=4)
        loop.add(request("a", "abcdefghijkl"), 0.0)
        play(loop)
        loop.add(request("b", "abcdefgh"), 0.0)
        play(loop)
        assert names(loop.running) == ["a", "b"]

    def test_four_choices_of_one_prompt_compute_it_once(self) -> None:
        loop = scheduler(max_running=4, max_rows=8)
        for choice in range(4):
            loop.add(request(f"r-{choice}", "abcdefghij"), 0.0)
        computed = [rows(play(loop)) for _ in range(3)]
        assert computed[0] == {"r-0": 8}
        # 2 tokens are left: fewer than `min_wait`, so the others go their own way from the 8
        assert computed[1] == {"r-0": 2, "r-1": 2, "r-2": 2, "r-3": 2}
        assert computed[2] == {"r-0": 1, "r-1": 1, "r-2": 1, "r-3": 1}

    def test_the_wait_ends_when_the_other_leaves(self) -> None:
        loop = scheduler(max_rows=4)
        first = loop.add(request("a", "abcdefghijklmnop"), 0.0)
        loop.add(request("b", "abcdefghijklmnop"), 0.0)
        play(loop)
        assert names(loop.waiting()) == ["b"]
        loop.cancel(first)
        assert names(loop.waiting()) == ["b"]
        play(loop)
        assert names(loop.running) == ["b"]
        assert loop.running[0].num_cached == 4
