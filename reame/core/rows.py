"""Which rows the next step computes: whose, how many, and within what time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Restore, Slice

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from reame.core.admission import Limits
    from reame.core.cost import StepCost
    from reame.core.sequence import Sequence

MOST_RESTORED = 2048
"""Tokens restored in one step: 10 to 30 ms."""


class RowPlanner:
    """Divides a step among the running sequences, which come oldest first."""

    def __init__(self, limits: Limits, cost: StepCost) -> None:
        self._limits = limits
        self._cost = cost

    def restores(self, running: Seq[Sequence]) -> list[Restore]:
        """Blocks for the sequences that have some, the oldest first, as many as one step can bear."""
        blocks = [(s, block) for s in running if s.slot for block in s.restoring]
        limit = max(1, MOST_RESTORED // len(blocks[0][1].tokens)) if blocks else 0
        return [Restore(s, s.slot.id, block) for s, block in blocks[:limit] if s.slot]

    def slices(self, running: Seq[Sequence]) -> list[Slice]:
        """Decoding sequences first, so that a long prompt cannot freeze them; then prefill chunks."""
        decoding = [s for s in running if s.num_missing == 1 and s.request.max_tokens]
        catching_up = [s for s in running if s.num_missing > 1 and not s.waits_for_disk]
        slices = []
        spare = min(
            self._limits.max_rows - len(decoding) - (self._limits.min_chunk if catching_up else 0),
            self._limits.max_sampled - len(running),
        )
        for sequence in decoding:
            draft = sequence.draft[: max(0, min(spare, self._longest_draft(sequence)))]
            spare -= len(draft)
            slices.append(_slice(sequence, 1, draft))
        gentle = bool(slices) or any(s.request.background for s in running)
        num_rows = sum(len(part.tokens) for part in slices)
        room = self._prefill_rows(num_rows, gentle=gentle) if catching_up else 0
        return slices + [_slice(s, rows) for s, rows in _share(catching_up, room) if rows]

    def _longest_draft(self, sequence: Sequence) -> int:
        """A draft stays within the reserved cells, and leaves one token to draw behind it."""
        left = sequence.request.max_tokens - sequence.num_generated
        return min(sequence.num_reserved - len(sequence.tokens), left - 1)

    def _prefill_rows(self, decoding_rows: int, *, gentle: bool) -> int:
        """Rows for prompts beside `decoding_rows`, so that the step stays within its time."""
        seconds = self._limits.step_seconds if gentle else self._limits.prefill_seconds
        rows = self._cost.rows_within(seconds, self._limits.max_rows) - decoding_rows
        return min(max(rows, self._limits.min_chunk), self._limits.max_rows - decoding_rows)


def _slice(sequence: Sequence, num_rows: int, draft: tuple[int, ...] = ()) -> Slice:
    """The next `num_rows` known tokens of `sequence`, and the draft behind them."""
    assert sequence.slot is not None
    start = sequence.num_computed
    tokens = (*sequence.tokens[start : start + num_rows], *draft)
    samples = num_rows == sequence.num_missing
    return Slice(sequence, sequence.slot.id, start, tokens, len(draft), samples)


def _share(sequences: list[Sequence], room: int) -> list[tuple[Sequence, int]]:
    """Divide `room` rows: the shortest first, so that a short prompt overtakes a long one; but the oldest gets at
    least a quarter, so that it never starves. `sequences` is oldest first."""
    if not sequences:
        return []
    granted = {sequences[0].order: min(sequences[0].num_wanted, max(1, room // 4))}
    room -= granted[sequences[0].order]
    for sequence in sorted(sequences, key=lambda s: s.num_wanted):
        more = min(sequence.num_wanted - granted.get(sequence.order, 0), room)
        granted[sequence.order] = granted.get(sequence.order, 0) + more
        room -= more
    return [(sequence, granted[sequence.order]) for sequence in sequences]
