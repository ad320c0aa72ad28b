"""What must hold in an oracle's world before and after each step, and what happened in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Compact, Copy, Trim

if TYPE_CHECKING:
    from oracle_world import World

    from reame.core.batch import Batch, StepResult


def check_promises(world: World) -> None:
    """Every running sequence can be given the cells that it was promised; no cell crosses a namespace."""
    running = [slot for slot in world.slots.slots if slot.running]
    pinned = {cell for slot in running for cell in slot.cells}
    promised = sum(s.num_reserved - s.num_computed for s in world.scheduler.running)
    assert [s.slot for s in world.scheduler.running if s.slot not in running] == []
    assert (len(running), world.slots.num_pinned) == (len(world.scheduler.running), len(pinned))
    assert all(s.cells_wanted <= s.num_reserved <= s.max_cells for s in world.scheduler.running)
    assert promised <= world.slots.num_free, "more cells promised than there are"
    check_idle_lane(world)
    owners: dict[int, str] = {}
    for slot in world.slots.slots:
        assert all(owners.setdefault(cell, slot.namespace) == slot.namespace for cell in slot.cells)


def check_idle_lane(world: World) -> None:
    """Background work holds nothing that people wait for, and does not use the disk beside them."""
    admission = world.scheduler.admission
    behind = [s for s in admission.running if s.request.background]
    waiting = [s for s in admission.queue if not s.request.background]
    if behind and len(behind) < len(admission.running):
        assert not any(s.waits_for_disk for s in behind), "background work reads the disk beside people"
    if behind and waiting:
        assert any(not s.request.background and not s.decodes for s in admission.running)
        coming = [admission.prefixes.in_flight(s, admission.running) for s in waiting]
        assert all(coming), "background work keeps somebody out"


def check_pace(world: World, batch: Batch) -> None:
    """Background rows make a step with people's rows in it hardly longer, but for a probe now and then."""
    people = sum(len(part.tokens) for part in batch.slices if not part.sequence.request.background)
    world.seen["rows beside people"] += (batch.num_rows - people) * bool(people)
    if batch.num_rows > people > 0:
        seconds, limit = world.scheduler.cost.seconds, 1 + world.limits.slowdown
        is_slow = seconds(batch.num_rows) > limit * seconds(people)
        world.seen["probes"] += is_slow
        assert not is_slow or batch.num_rows == people + 1, "background work slows people down"


def check_mirror(world: World) -> None:
    """The engine's cells are the scheduler's, but for trims that the next batch will carry."""
    lengths = world.runner.lengths()
    pending = [op for op in world.scheduler.admission.residents.operations if isinstance(op, Trim)]
    for trim in pending:
        lengths[trim.seq] = min(lengths[trim.seq], trim.length)
    assert lengths == [len(slot.tokens) for slot in world.slots.slots]
    held = {cell for slot in world.slots.slots for cell in slot.cells}
    if not pending:
        cells = world.engine.cells
        places = [[p for p, cell in enumerate(cells) if seq in cell.seqs] for seq in range(world.engine.num_seqs)]
        assert places == [slot.cells for slot in world.slots.slots], "cells lie elsewhere than believed"
    assert world.slots.num_free == world.slots.num_cells - len(held)
    assert pending or world.engine.num_used == len(held)


def note(world: World, batch: Batch, result: StepResult) -> None:
    seen = world.seen
    seen["copies"] += sum(isinstance(op, Copy) for op in batch.operations)
    seen["evictions"] += sum(op == Trim(op.seq, 0) for op in batch.operations if isinstance(op, Trim))
    seen["takeovers"] += sum(op.length > 0 for op in batch.operations if isinstance(op, Trim))
    seen["compactions"] += sum(isinstance(op, Compact) and bool(op.pieces) for op in batch.operations)
    seen["restores"] += result.num_restored
    if world.whole_state:
        seen["states kept"] += sum(isinstance(op, Copy) for op in batch.operations)
        seen["states restored"] += result.num_restored
    seen["failed restores"] += result.num_restored < len(batch.restores)
    seen["failures"] += result.error is not None
    for part, output in zip(batch.slices, result.outputs, strict=False):
        assert 0 not in output.tokens[:-1], "drawn beyond the end"
        seen["chunks"] += not part.samples
        seen["rated chunks"] += bool(output.rated)
        seen["ends of constraints"] += output.is_over
        if part.num_drafted:
            num_accepted = output.num_accepted
            how = "wholly" if num_accepted == part.num_drafted else "partly" if num_accepted else "not"
            seen[f"drafts {how} accepted"] += 1
            if part.sequence.text.stopped:
                seen["stops in drafts"] += part.sequence.tokens[-len(output.tokens) :] != list(output.tokens)
            seen["forced beyond drafts"] += len(output.tokens) > num_accepted + 1
            seen["ends in drafts"] += output.tokens[-1] == 0 and 0 in part.tokens[-part.num_drafted :]
