"""A batch of the API under way, and its share of what computes them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import define, field

from reame.batch import order

if TYPE_CHECKING:
    from reame.batch.account import Account
    from reame.batch.line import Record
    from reame.batch.result import Outcome
    from reame.batch.shelf import Told
    from reame.errors import RequestError
    from reame.runtime.batch_run import Solver


@define
class Running:
    """A batch under way. `end`: the state that it comes to when it is stopped before its end."""

    told: Told
    scope: trio.CancelScope = field(factory=trio.CancelScope)
    account: Account | None = None
    end: str = "completed"
    fault: RequestError | None = None
    """Why it cannot go on, although what was done is handed out."""
    is_handed_out: bool = False

    def now_told(self) -> Told:
        if self.account is None:
            return self.told
        return self.told | {"request_counts": order.counts(self.account)}


@define
class Share:
    """A solver whose best number at once is shared by the batches under way."""

    solver: Solver
    running: dict[str, Running]

    def width(self) -> int:
        return max(1, self.solver.width() // max(1, len(self.running)))

    def most(self) -> int:
        return max(1, self.solver.most() // max(1, len(self.running)))

    async def solve(self, record: Record) -> Outcome:
        return await self.solver.solve(record)
