"""Plan and commit: which rows the next step computes, and what its outcome means. Pure; run lies between them.

There is one way to work: a sequence has tokens, some of them computed, and each step lets the computed ones catch up.
Prefill is catching up by many rows, decoding by one, a draft by a few that may be taken back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.admission import Admission
from reame.core.batch import Batch, Load, Output, Slice, StepResult
from reame.core.capture import Capture
from reame.core.checkpoints import in_equal_parts, in_turn
from reame.core.cost import StepCost
from reame.core.draft_account import account_drafts
from reame.core.rows import RowPlanner
from reame.core.sequence import Sequence
from reame.core.telling import Telling
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reame.core.blocks import Block
    from reame.core.draft import DraftCount
    from reame.core.events import Event, FinishReason
    from reame.core.limits import Limits
    from reame.core.request import Request
    from reame.core.slots import Slots


class Scheduler:
    """Owner of all sequences and slots. Between `plan` and `commit` nothing else may be called.

    `num_rows` were computed and `num_drawn` tokens of answers drawn since the start, and `drafts` of each source
    verified; counted before anybody's end can be seen.
    `piece` gives a token's bytes, `eog_tokens` end a generation, `block_tokens` are captured as one block for the disk
    (0: none are). Times are seconds on one clock of the caller's.
    """

    def __init__(
        self,
        slots: Slots,
        limits: Limits,
        *,
        piece: Callable[[int], bytes],
        eog_tokens: frozenset[int],
        block_tokens: int = 0,
    ) -> None:
        self.limits = limits
        self.cost = StepCost()
        self.num_rows = self.num_drawn = 0
        self.drafts: dict[str, DraftCount] = {}
        self._capture = Capture(slots, block_tokens)
        self.admission = Admission(slots, limits, self._capture, self.cost)
        self._rows = RowPlanner(limits, self.cost, self.admission.lane)
        self._telling = Telling(piece, eog_tokens)

    @property
    def running(self) -> list[Sequence]:
        return self.admission.running

    def waiting(self) -> list[Sequence]:
        """In the order of service."""
        return list(self.admission.queue)

    @property
    def only_decodes(self) -> bool:
        """Nobody waits and nobody catches up: the next step follows from the last one. Where people are, background
        work does not count."""
        queue, people = self.admission.queue, [s for s in self.running if not s.request.background]
        waiting = queue.has_people if people else len(queue)
        behind = any(not s.decodes or s.waits_for_disk for s in people or self.running)
        return bool(self.running) and not waiting and not behind

    def sequences(self) -> list[Sequence]:
        """All that are not over: running, then waiting in the order of service."""
        return [*self.running, *self.waiting()]

    def add(self, request: Request, now: float, num_on_disk: int = 0) -> Sequence:
        """Queue a request; the disk has the blocks of the first `num_on_disk` tokens of its prompt.

        It must fit the cells alone: len(prompt) + max_tokens - 1 <= num_cells. What it is forced to begin with is
        generated at once.
        """
        sequence = Sequence.new(request, now, num_on_disk)
        assert sequence.max_cells <= self.admission.slots.num_cells
        self.admission.queue.add(sequence)
        if request.forced:
            output = Output(request.forced, self._telling.logprobs_of_forced(request))
            self._take_drawn(sequence, output, now, begins=True)
        return sequence

    def num_live(self, tokens: Iterable[int], namespace: str) -> int:
        """How many of `tokens`, from the front, live cells have at this moment."""
        wanted = list(tokens)
        slots = self.admission.slots
        mine = (slot for slot in slots.slots if slot.namespace == namespace)
        return max((slots.reusable(slot, wanted, len(wanted)) for slot in mine), default=0)

    def take_loads(self) -> list[Load]:
        """What the last plan wants to have from the disk."""
        return self.admission.take_loads()

    def loaded(self, load: Load, blocks: tuple[Block, ...], seconds: float) -> None:
        """The consecutive blocks from `load.start` on that could be read, in `seconds`; perhaps none."""
        sequence = load.sequence
        if sequence.loading and sequence.num_computed == load.start:
            sequence.loading, sequence.restoring = False, blocks
            self.cost.observe_load(sum(len(block.tokens) for block in blocks), seconds)

    def cancel(self, sequence: Sequence) -> None:
        """Nobody wants it any more: no event, no further row. What it computed stays as a resident."""
        if not sequence.done:
            sequence.done = True
            self.admission.leave(sequence)

    def fail(self, sequence: Sequence, error: RequestError, now: float) -> None:
        """End a sequence with an error for its client."""
        self._finish(sequence, None, now, error=error)

    def forget(self, namespace: str) -> None:
        """What was computed for this namespace so far is of use to nobody from the next step on."""
        self.admission.forget(namespace)

    def heed_disk(self, *, loses: bool, waits: bool) -> None:
        """How the disk is doing: see `Capture`."""
        self._capture.loses, self._capture.waits = loses, waits

    def take_events(self) -> list[tuple[Sequence, Event]]:
        return self._telling.take_events()

    def plan(self, now: float) -> Batch | None:
        """The next step, or None when there is nothing to do."""
        self._expire(now)
        self.admission.preemption.grow()
        self.admission.checkpoints.keep(self.running, self.admission.residents)
        self.admission.admit(now)
        self._finish_warmed(now)
        self.admission.checkpoints.mark(self.running, self.admission.queue)
        restores, slices = self._rows.restores(self.running), self._rows.slices(self.running)
        num_written = sum(len(r.block.tokens) for r in restores) + sum(len(part.tokens) for part in slices)
        computing = (s for s in self.running if s.slot and not s.waits_for_disk)
        self.admission.residents.compact(num_written, sum(s.num_wanted for s in computing))
        operations = (*self.admission.residents.take_operations(), *self._capture.take(self.running))
        return Batch(operations, tuple(slices), tuple(restores)) if slices or operations or restores else None

    def commit(self, batch: Batch, result: StepResult, now: float) -> None:
        """Take in what the step gave. After an error the batch's cells hold garbage; its sequences end."""
        slots = self.admission.slots
        self._capture.earn(result.seconds)
        self._capture.spend(result.saved)
        if batch.restores and not self._take_restored(batch, result):
            return
        if result.error:
            slots.write(slots.num_fresh)  # how many cells it wrote is not known: none is fresh
            for part in batch.slices:
                error = RequestError(str(result.error), status=500, code="engine_error")
                self._finish(part.sequence, None, now, error=error, keep=False)
            return
        self.num_rows += batch.num_rows
        if batch.slices:
            account_drafts(batch, result, self.cost, self.drafts)
            self.cost.observe(batch.num_rows, result.seconds)
        first = slots.write(batch.num_rows)
        lengths = [len(part.tokens) for part in batch.slices]
        places = in_equal_parts(lengths) if slots.whole_state else in_turn(lengths)
        for part, output, own in zip(batch.slices, result.outputs, places, strict=True):
            self._advance(part, output, [first + place for place in own], now)

    def _take_restored(self, batch: Batch, result: StepResult) -> bool:
        """Blocks that went in are cells like any other. After one that did not, nothing else was done: False."""
        slots = self.admission.slots
        done = batch.restores[: result.num_restored]
        self.cost.observe_restore(sum(len(restore.block.tokens) for restore in done), result.restore_seconds)
        for restore in done:
            sequence, tokens = restore.sequence, restore.block.tokens
            assert sequence.slot is not None
            slots.append(sequence.slot, list(tokens), slots.write(len(tokens)))
            sequence.slot.num_saved = max(sequence.slot.num_saved, restore.block.stop)
            sequence.restoring = sequence.restoring[1:]
            if not sequence.preempted:
                sequence.num_restored += len(tokens)
                sequence.num_cached += len(tokens)
        for restore in batch.restores[result.num_restored :]:
            restore.sequence.restoring = ()
            slots.write(slots.num_fresh)
        return result.num_restored == len(batch.restores)

    def _expire(self, now: float) -> None:
        for sequence in self.sequences() if self.admission.queue else list(self.running):
            if now >= sequence.request.deadline:
                error = RequestError(
                    "the request took longer than its timeout (scheduler.request_timeout_s)",
                    status=408,
                    code="request_timeout",
                )
                self._finish(sequence, None, now, error=error)

    def _finish_warmed(self, now: float) -> None:
        """Sequences that only wanted their prompt computed, and have it."""
        warm = [s for s in self.running if not (s.request.max_tokens or s.num_wanted or s.waits_for_disk)]
        for sequence in (*warm, *self.admission.take_warm_already()):
            sequence.first_token = now
            if sequence.request.prompt_logprobs and not sequence.rated:
                self._telling.rated_alone(sequence)
            self._finish(sequence, "stop" if sequence.request.background else "length", now)

    def _advance(self, part: Slice, output: Output, cells: list[int], now: float) -> None:
        sequence = part.sequence
        assert sequence.slot is not None
        num_kept = len(part.tokens) - part.num_drafted + output.num_accepted
        self.admission.slots.extend(sequence.slot, list(part.tokens[:num_kept]), cells[:num_kept])
        sequence.draft = None if self.admission.slots.whole_state else output.draft
        sequence.num_forced = max(0, len(output.tokens) - output.num_accepted - 1)
        if not sequence.request.max_tokens:
            self._telling.computed(sequence)
        self._telling.rated(sequence, output.rated)
        if output.error:
            self._finish(sequence, None, now, error=output.error)
        elif part.samples:
            sequence.first_token = sequence.first_token or now
            self._take_drawn(sequence, output, now)

    def _take_drawn(self, sequence: Sequence, output: Output, now: float, *, begins: bool = False) -> None:
        before = sequence.num_generated
        reason = self._telling.drawn(sequence, output, now, begins=begins)
        self.num_drawn += sequence.num_generated - before
        if reason:
            self._finish(sequence, reason, now)

    def _finish(
        self,
        sequence: Sequence,
        reason: FinishReason | None,
        now: float,
        *,
        error: RequestError | None = None,
        keep: bool = True,
    ) -> None:
        sequence.done = True
        self.admission.leave(sequence, keep=keep)
        saved = self.cost.seconds(sequence.num_cached) if sequence.num_cached else 0.0
        self._telling.ended(sequence, reason, now, saved=saved, error=error)
