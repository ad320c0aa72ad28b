"""Background work beside people: as many rows as a step hardly feels, and never a slot, a cell or a wait of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from making import LETTERS, names, request, rows, scheduler

from reame.core.admission import VAIN
from reame.core.batch import Output, StepResult
from reame.core.cost import EDGES
from reame.core.idle_lane import PROBE_STEPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.core.request import Request
    from reame.core.scheduler import Scheduler

    Curve = Callable[[int], float]


def record(name: str, prompt: str = "x", max_tokens: int = 50) -> Request:
    return evolve(request(name, prompt, max_tokens), background=True)


def step(loop: Scheduler, seconds: Curve) -> dict[str, int]:
    """The rows of a step that takes as long as `seconds` says of their number; everybody draws an "a"."""
    batch = loop.plan(0.0)
    outputs = [Output((1,) if part.samples else ()) for part in batch.slices] if batch else []
    if batch:
        loop.commit(batch, StepResult(outputs=outputs, seconds=seconds(batch.num_rows)), 0.0)
    return rows(batch)


def flat(num_rows: int) -> float:
    """A machine with cores to spare."""
    return 0.010 + 0.0001 * num_rows


def steep(num_rows: int) -> float:
    return 0.010 * num_rows


def measured(seconds: Curve, **limits: int) -> Scheduler:
    loop = scheduler(**({"max_running": 4, "num_seqs": 6} | limits))
    loop.cost.seed({number: seconds(number) for number in range(1, 17)})
    return loop


@pytest.mark.parametrize(
    ("times", "num_people", "num_records"),
    [
        ([10, 10.4, 10.5, 10.6], 1, 2),  # 10.5 are 5 % more than 10
        ([10, 10.6, 10.7, 10.8], 1, 0),
        ([10, 15, 15.8, 15.7], 2, 2),  # a fourth row where a third would be too dear
        ([10, 15, 15.8, 15.9], 2, 0),
        ([10, 15, 15.5, 16.2], 3, 1),
    ],
)
def test_as_many_rows_join_as_make_a_step_a_twentieth_longer(
    times: list[float], num_people: int, num_records: int
) -> None:
    loop = measured(lambda number: times[number - 1] if number <= 4 else 1000)
    for number in range(num_people):
        loop.add(request(f"p{number}", "a", 50), 0.0)
    for number in range(3):
        loop.add(record(f"r{number}"), 0.0)
    people, records = [f"p{i}" for i in range(num_people)], [f"r{i}" for i in range(num_records)]
    assert step(loop, lambda number: times[number - 1]) == dict.fromkeys([*people, *records], 1)
    assert names(loop.running) == [*people, *records]


def test_a_prompt_is_read_in_the_rows_that_are_left() -> None:
    loop = measured(flat)
    loop.add(request("p", "a", 50), 0.0)
    loop.add(record("r", "bcdefghijklm"), 0.0)
    assert [step(loop, flat) for _ in range(3)] == [{"p": 1, "r": 5}, {"p": 1, "r": 5}, {"p": 1, "r": 2}]
    assert step(loop, flat) == {"p": 1, "r": 1}  # it decodes


def test_a_step_of_theirs_is_planned_as_if_they_were_alone() -> None:
    """The prompt of somebody who comes gets the whole step, whatever records wait for."""
    loop = measured(steep, max_rows=8)
    for number in range(3):
        loop.add(record(f"r{number}"), 0.0)
    step(loop, steep)
    loop.add(request("p", "abcdefghijkl", 2), 0.0)
    assert [step(loop, steep) for _ in range(3)] == [{"p": 8}, {"p": 4}, {"p": 1}]
    assert step(loop, steep) == {"r0": 1, "r1": 1, "r2": 1}


def test_slots_are_theirs() -> None:
    loop = measured(flat, max_running=2)
    for number in range(2):
        loop.add(record(f"r{number}"), 0.0)
    step(loop, flat)
    loop.add(request("p", "a", 50), 0.0)
    assert step(loop, flat) == {"p": 1, "r0": 1}
    loop.add(request("q", "b", 50), 0.0)
    assert step(loop, flat) == {"p": 1, "q": 1}
    assert names(loop.waiting()) == ["r0", "r1"]


def test_cells_are_theirs() -> None:
    """Of twelve cells each record was promised five; p is promised five as well, and q seven."""
    loop = measured(flat, num_cells=12)
    for number in range(2):
        loop.add(record(f"r{number}", max_tokens=5), 0.0)
    step(loop, flat)
    loop.add(request("p", "a", 5), 0.0)
    assert step(loop, flat) == {"p": 1, "r0": 1}
    loop.add(request("q", "bcde", 4), 0.0)
    assert step(loop, flat) == {"p": 1, "q": 4}


def test_a_record_that_needs_more_cells_takes_none_of_theirs() -> None:
    """Both hold six of the thirteen cells when p takes the last one; then r has to go."""
    loop = measured(flat, num_cells=13, reserve=4)
    loop.add(request("p", "a", 9), 0.0)
    loop.add(record("r", max_tokens=12), 0.0)
    assert [tuple(step(loop, flat)) for _ in range(9)] == [("p", "r")] * 6 + [("p",)] * 3


def test_people_who_need_more_cells_take_those_of_records() -> None:
    """Ten cells are promised, five to each; then p, although it came later, takes the sixth from r."""
    loop = measured(flat, num_cells=10, reserve=4)
    loop.add(record("r", max_tokens=10), 0.0)
    loop.plan(0.0)
    loop.add(request("p", "a", 9), 0.0)
    assert [tuple(step(loop, flat)) for _ in range(9)] == [("p", "r")] * 5 + [("p",)] * 4


def test_nobody_waits_for_a_prefix_that_a_record_reads() -> None:
    loop = measured(flat)
    loop.add(record("r", "abcdefghijklmnop" * 2), 0.0)
    step(loop, flat)
    asking = loop.add(request("p", "abcdefghijklmnop" * 2, 2), 0.0)
    assert step(loop, flat)["p"] == 16
    assert asking.num_cached == 16


def test_the_disk_is_read_when_they_are_gone() -> None:
    loop = measured(flat, block_tokens=2)
    loop.add(request("p", "a", 2), 0.0)
    loop.add(record("r", "bcdefghijklm"), 0.0, num_on_disk=10)
    for _ in range(2):
        assert step(loop, flat) == {"p": 1}
        assert loop.take_loads() == []
    loop.plan(0.0)
    assert [load.stop for load in loop.take_loads()] == [10]


def test_beside_somebody_who_stays_it_is_not_waited_for_for_ever() -> None:
    """What is on the disk is computed then, and the others of the batch have it in live cells."""
    loop = measured(flat, num_cells=1000, block_tokens=2)
    loop.add(request("p", "a", 900), 0.0)
    for name in "rs":
        loop.add(record(name, "bcdefghijklm"), 0.0, num_on_disk=10)
    for _ in range(VAIN):
        assert step(loop, flat) == {"p": 1}
    while len(beside := step(loop, flat)) < 3:
        assert set(beside) <= {"p", "r"}
    assert loop.take_loads() == []


@pytest.mark.parametrize(("slowdown", "num_probes"), [(0.05, 1), (0.0, 0)])
def test_times_that_may_be_old_are_tried_again(slowdown: float, num_probes: int) -> None:
    loop = measured(steep, num_cells=1000)
    loop.admission.lane._limits = evolve(loop.limits, slowdown=slowdown)
    loop.add(request("p", "a", 900), 0.0)
    loop.add(record("r", "bcd"), 0.0)
    beside = [step(loop, steep).get("r", 0) for _ in range(PROBE_STEPS + 50)]
    assert sum(beside) == num_probes


def test_their_steps_follow_from_each_other_while_records_wait() -> None:
    loop = measured(steep)
    loop.add(request("p", "a", 50), 0.0)
    loop.add(record("r"), 0.0)
    step(loop, steep)
    assert loop.only_decodes
    loop.add(request("q", "b", 50), 0.0)
    assert not loop.only_decodes


@pytest.mark.parametrize(("seconds_a_row", "num_fitting"), [(1e-6, 500), (1e-5, 50), (1e-4, 5), (1e-2, 0)])
def test_the_rows_of_a_long_prompt_are_counted_in_a_few_looks(
    seconds_a_row: float, num_fitting: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look at each number from the most on down would take 0.2 ms of each step, to find that hardly one fits."""
    loop = scheduler(num_cells=4000, max_rows=512)
    loop.cost.seed({number: 0.010 + seconds_a_row * number for number in EDGES if number <= 512})
    behind = loop.add(record("r", "b" * 2000), 0.0)
    looks, seconds = [], loop.cost.seconds
    monkeypatch.setattr(loop.cost, "seconds", lambda rows: looks.append(rows) or seconds(rows))
    assert sum(rows for _, rows in loop.admission.lane.share([behind], 1)) == num_fitting
    assert len(looks) < 32


def test_nobody_looks_for_the_cells_of_those_that_need_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each step, for each of them, through all slots: that took longer than the step. One that finds it all in
    live cells is let in."""
    loop = measured(flat, block_tokens=2)
    loop.add(request("p", "abcdefghij", 50), 0.0)
    step(loop, flat)
    for number in range(9):
        loop.add(record(f"r{number}", "xyzabcdefgh"), 0.0, num_on_disk=10)
    loop.add(record("s", "abcdefghijk"), 0.0, num_on_disk=10)
    looked, live = [], loop.admission.prefixes.live
    monkeypatch.setattr(
        loop.admission.prefixes, "live", lambda sequence: looked.append(sequence.request.id) or live(sequence)
    )
    assert step(loop, flat) == {"p": 1, "s": 1}
    assert looked == ["s"]


@given(st.lists(st.text("ab", max_size=12), max_size=3), st.text("ab", min_size=1, max_size=14), st.integers(0, 14))
def test_who_needs_the_disk_would_read_from_it(residents: list[str], prompt: str, num_on_disk: int) -> None:
    loop = scheduler(block_tokens=4)
    for number, tokens in enumerate(residents):
        loop.admission.slots.slots[number].tokens = [LETTERS.index(char) for char in tokens.encode()]
    sequence = loop.add(record("r", prompt), 0.0, num_on_disk=num_on_disk)
    prefixes = loop.admission.prefixes
    _, length = prefixes.live(sequence)
    wanted = prefixes.on_disk(sequence, length)
    assert prefixes.needs_disk(sequence) == (wanted - length > 2)
