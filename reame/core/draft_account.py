"""What drafts were good for: they save the steps of the accepted tokens, and cost their rows. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.draft import DraftCount

if TYPE_CHECKING:
    from reame.core.batch import Batch, StepResult
    from reame.core.cost import StepCost


def account_drafts(batch: Batch, result: StepResult, cost: StepCost, by_source: dict[str, DraftCount]) -> None:
    """Add what came of a step's drafts to the count of each source and of each sequence. Before `cost` learns of it."""
    drafted = [(p, p.draft, o) for p, o in zip(batch.slices, result.outputs, strict=True) if p.draft]
    if not drafted:
        return
    num_drawing = sum(part.samples for part in batch.slices)
    num_plain = batch.num_rows - sum(part.num_drafted for part, _, _ in drafted)
    plain = cost.seconds(num_plain)
    for part, draft, output in drafted:
        share = part.num_drafted / (batch.num_rows - num_plain)
        saved = output.num_accepted * plain / num_drawing - share * (result.seconds - plain)
        for count in (by_source.setdefault(draft.source, DraftCount()), part.sequence.drafts):
            count.add(part.num_drafted, output.num_accepted, saved)
