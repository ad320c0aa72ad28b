"""Which rows the next step computes: whose, how many, and within what time. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Restore, Slice
from reame.core.draft import GAIN, draft_lengths

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from reame.core.cost import StepCost
    from reame.core.draft import Draft
    from reame.core.idle_lane import IdleLane
    from reame.core.limits import Limits
    from reame.core.sequence import Sequence

MOST_RESTORED = 2048
"""Tokens restored in one step: 10 to 30 ms."""

PROBE_STEPS = 200
"""So many steps after the last draft one is verified that does not seem to pay: T(rows) is then measured anew."""

QUIET_STEPS = 50
"""So many steps without a person, and none is expected before the end of a long one."""

PROBE_SURVIVAL = 0.5
"""Only a draft whose first token is at least this likely is worth a probe."""


class RowPlanner:
    """Divides a step among the running sequences, which come oldest first."""

    def __init__(self, limits: Limits, cost: StepCost, lane: IdleLane) -> None:
        self._limits = limits
        self._lane = lane
        self._cost = cost
        self._undrafted = 0
        self._quiet = 0
        """Steps since a person had rows."""

    def restores(self, running: Seq[Sequence]) -> list[Restore]:
        """Blocks for the sequences that have some, the oldest first, as many as one step can bear."""
        blocks = [(s, block) for s in running if s.slot for block in s.restoring]
        limit = max(1, MOST_RESTORED // len(blocks[0][1].tokens)) if blocks else 0
        return [Restore(s, s.slot.id, block) for s, block in blocks[:limit] if s.slot]

    def slices(self, running: Seq[Sequence]) -> list[Slice]:
        """People's rows as if nobody else were there, then what background work may add to them."""
        people = [s for s in running if not s.request.background]
        self._quiet = 0 if people else self._quiet + 1
        slices = self._divide(people or running, len(running))
        if not people or len(people) == len(running):
            return slices
        behind = [s for s in running if s.request.background]
        num_rows = sum(len(part.tokens) for part in slices)
        return slices + [_slice(s, rows) for s, rows in self._lane.share(behind, num_rows)]

    def _divide(self, running: Seq[Sequence], num_sampled: int) -> list[Slice]:
        """Decoding sequences first, so that a long prompt cannot freeze them; then prefill chunks; then drafts, as far
        as they pay beside all that. `num_sampled` rows give logits anyway, one for each that runs."""
        decoding = [s for s in running if s.decodes and not s.waits_for_disk]
        catching_up = [s for s in running if not s.decodes and not s.waits_for_disk]
        room = self._limits.max_rows - (self._limits.min_chunk if catching_up else 0)
        steady = self._fitting(decoding, room)
        num_rows = sum(rows for _, rows in steady)
        room = self._prefill_rows(num_rows, self._prefill_seconds(running)) if catching_up else 0
        shared, num_sampled = self._within_sampled(_share(catching_up, room), num_sampled)
        drafts = self._drafts(decoding, num_rows + sum(rows for _, rows in shared), num_sampled)
        return [_slice(s, rows, drafts.get(s.order)) for s, rows in (*steady, *shared)]

    def _fitting(self, decoding: list[Sequence], room: int) -> list[tuple[Sequence, int]]:
        """The rows of the decoding sequences: one for what was drawn last, and those that a constraint forced behind
        it. In a step too small for all of these, or too long for others, the forced ones wait."""
        most = sum(max(1, sequence.num_next) for sequence in decoding)
        spare, granted = min(room, self._within_time(len(decoding), most, len(decoding))) - len(decoding), []
        for sequence in decoding:
            more = max(0, min(sequence.num_next - 1, spare))
            spare -= more
            granted.append((sequence, 1 + more))
        return granted

    def _within_sampled(
        self, shared: list[tuple[Sequence, int]], num_sampled: int
    ) -> tuple[list[tuple[Sequence, int]], int]:
        """The chunks, with no more rows that rate a prompt than may give logits; and how many rows then do, when
        `num_sampled` do anyway, one for each running sequence."""
        granted = []
        for sequence, rows in shared:
            if sequence.request.prompt_logprobs:
                rows = min(rows, 1 + self._limits.max_sampled - num_sampled)
                num_sampled += max(rows - 1, 0)
            if rows:
                granted.append((sequence, rows))
        return granted, num_sampled

    def _drafts(self, decoding: list[Sequence], num_rows: int, num_sampled: int) -> dict[int, Draft]:
        """By order of sequence: as much of each draft as pays."""
        self._undrafted += 1
        drafts = [(s, draft) for s in decoding if s.draft and (draft := s.draft.cut(self._longest_draft(s)))]
        if not drafts:
            return {}
        most = num_rows + sum(len(draft.tokens) for _, draft in drafts)
        room = min(self._within_time(num_rows, most, len(decoding)) - num_rows, self._limits.max_sampled - num_sampled)
        if room <= 0:
            return {}
        survivals = [draft.survivals for _, draft in drafts]
        probe = self._undrafted > PROBE_STEPS and max(each[0] for each in survivals) >= PROBE_SURVIVAL
        lengths = draft_lengths(
            survivals, rows=num_rows, room=room, seconds=self._cost.seconds, gain=0.0 if probe else GAIN
        )
        if any(lengths):
            self._undrafted = 0
        cut = ((s, draft.cut(length)) for (s, draft), length in zip(drafts, lengths, strict=True))
        return {s.order: draft for s, draft in cut if draft}

    def _within_time(self, num_rows: int, most: int, num_decoding: int) -> int:
        """The most rows of a step with drafts or forced tokens, at most `most`: others should not wait longer for their
        next token than they do for somebody's prompt, yet a step that is long already may double."""
        limits, most = self._limits, min(most, self._limits.max_rows)
        seconds = limits.step_seconds if num_decoding > 1 else limits.prefill_seconds
        seconds = max(seconds, 2 * self._cost.seconds(num_rows))
        return most if self._cost.seconds(most) <= seconds else self._cost.rows_within(seconds, most)

    def _longest_draft(self, sequence: Sequence) -> int:
        """A draft stays within the reserved cells, leaves one token to draw behind it, and waits for what is forced."""
        return min(sequence.num_reserved - len(sequence.tokens), sequence.num_left - 1)

    def _prefill_seconds(self, running: Seq[Sequence]) -> float:
        """How long a step with a prompt in it may take: no longer than whoever would feel it can bear."""
        if any(s.decodes and not s.request.background for s in running):
            return self._limits.step_seconds
        is_lone = self._quiet > QUIET_STEPS if self._quiet else len(running) == 1
        return self._limits.lone_seconds if is_lone else self._limits.prefill_seconds

    def _prefill_rows(self, decoding_rows: int, seconds: float) -> int:
        """Rows for prompts beside `decoding_rows`: the step has a whole number of groups of rows, the one that is
        nearest to `seconds`, as a group that is nearly full costs as much as a full one."""
        limits = self._limits
        rows = max(self._cost.rows_within(seconds, limits.max_rows), decoding_rows + limits.min_chunk)
        whole = (rows + limits.row_group // 2) // limits.row_group * limits.row_group
        return max(1, min(whole, limits.max_rows) - decoding_rows)


def _slice(sequence: Sequence, num_rows: int, draft: Draft | None = None) -> Slice:
    """The next `num_rows` known tokens of `sequence`, and the draft behind them if they are all it knows."""
    assert sequence.slot is not None
    start = sequence.num_computed
    samples = num_rows == sequence.num_missing
    draft = draft if samples else None
    tokens = (*sequence.tokens[start : start + num_rows], *(draft.tokens if draft else ()))
    return Slice(sequence, sequence.slot.id, start, tokens, draft, samples)


def _share(sequences: list[Sequence], room: int) -> list[tuple[Sequence, int]]:
    """Divide `room` rows: the shortest first, so that a short prompt overtakes a long one; but the oldest gets at
    least a quarter, so that it never starves. `sequences` is oldest first."""
    if not sequences:
        return []
    granted = {sequences[0].order: min(sequences[0].num_next, max(1, room // 4))}
    room -= granted[sequences[0].order]
    for sequence in sorted(sequences, key=lambda s: s.num_wanted):
        more = min(sequence.num_next - granted.get(sequence.order, 0), room)
        granted[sequence.order] = granted.get(sequence.order, 0) + more
        room -= more
    return [(sequence, granted[sequence.order]) for sequence in sequences]
