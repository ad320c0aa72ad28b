"""How long a step took, and which steps are of its kind, so that their times can be compared. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from reame.core.cost import edge_of

if TYPE_CHECKING:
    from reame.core.batch import Batch, StepResult

EXACT = 16
"""Up to so many rows only steps of just as many are alike; larger ones are alike in groups, by their time for a row."""
LEAST_CELLS = 256
"""llama.cpp attends to cells in portions of so many: less makes no difference."""


@frozen
class StepTime:
    """A step that went well, at `at` (seconds on the scheduler's clock). `num_sampled` of its `num_rows` gave logits.

    `num_cells`: what attention went over, the cells of each row's own text and once all that are written.
    """

    num_rows: int
    num_sampled: int
    num_cells: int
    seconds: float
    at: float

    @property
    def group(self) -> int:
        """The number of rows that stands for this one."""
        return self.num_rows if self.num_rows <= EXACT else edge_of(self.num_rows)

    @property
    def kind(self) -> int:
        """The same for steps that take as long when nothing holds them up, whatever they compute: as many rows and
        logits, and cells within a factor of 1.4."""
        cells = (max(self.num_cells, LEAST_CELLS) ** 2).bit_length()
        return (self.group << 16) + (self.num_sampled.bit_length() << 8) + cells

    @property
    def comparable_seconds(self) -> float:
        """As if it had the rows of its group."""
        return self.seconds * self.group / self.num_rows


def step_time(batch: Batch, result: StepResult, *, num_written: int, at: float) -> StepTime | None:
    """None when it failed, or computed nothing. `num_written` cells are not fresh."""
    if result.error or not result.outputs:
        return None
    return StepTime(
        num_rows=batch.num_rows,
        num_sampled=sum((1 + part.num_drafted if part.samples else 0) + len(part.rated) for part in batch.slices),
        num_cells=num_written + sum(len(part.tokens) * (part.start + len(part.tokens)) for part in batch.slices),
        seconds=result.seconds,
        at=at,
    )
