"""A batch under way: along the tree of the prompts, as many records at once as is fastest, each result on the disk
before the next record takes its place.

Bound: `Solver.most()` records at a time, and of the rest nothing in memory.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from reame.batch.result import refusal, result_line
from reame.errors import ReameError, RequestError
from reame.runtime.batch_faults import OF_DISK

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.batch.account import Account
    from reame.batch.journal import Journal
    from reame.batch.line import Record
    from reame.batch.plan import Plan
    from reame.batch.result import Outcome


PROBES = 8
"""One of so many fillings of all places is tried whatever its steps took before. Those times may be old, from when the
machine was busy with something else; and what is not done is not measured again."""
log = logging.getLogger(__name__)


class Solver(Protocol):
    """Answers records, one at a time or many."""

    def width(self) -> int:
        """How many at once are fastest, by what steps took lately."""

    def most(self) -> int:
        """How many at once can be computed."""

    async def solve(self, record: Record) -> Outcome:
        """A request that was refused is an outcome too. Raises ReameError when there is no point in going on."""


class BatchRun:
    """`run` may be cancelled at any moment, and raises OSError when the results cannot be written: what is written
    stays, and another run goes on from there. `tell` is called after each change of the account."""

    def __init__(
        self, plan: Plan, journal: Journal, solver: Solver, account: Account, tell: Callable[[], None]
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._solver = solver
        self._account = account
        self._tell = tell
        self._disk = trio.Lock()
        self._unwritten: list[bytes] = []

    async def run(self) -> None:
        """Until every line has a result."""
        faults = self._plan.faults()
        while some := await trio.to_thread.run_sync(next, faults, None):
            await self._write(b"".join(lines for _, lines in some))
            self._account.fault(code for code, _ in some)
            self._tell()
        groups = self._plan.groups()
        places = trio.CapacityLimiter(1)
        async with trio.open_nursery() as nursery:
            number = 0
            while group := await trio.to_thread.run_sync(next, groups, None):
                places.total_tokens = self._num_places(number)
                number += 1
                await places.acquire_on_behalf_of(group)
                nursery.start_soon(partial(self._do, group, places))

    def _num_places(self, number: int) -> int:
        """For the `number`-th record that is asked."""
        most = max(1, self._solver.most())
        return most if number % (PROBES * most) < most else min(most, max(1, self._solver.width()))

    async def _do(self, group: tuple[Record, ...], places: trio.CapacityLimiter) -> None:
        outcome, lines = await self._result(group)
        await self._write(lines)
        self._account.take(outcome, len(group), trio.current_time())
        self._tell()
        places.release_on_behalf_of(group)

    async def _result(self, group: tuple[Record, ...]) -> tuple[Outcome, bytes]:
        """The outcome, and its lines. What breaks with one record is the end of that one, not of the batch."""
        try:
            outcome = await self._solver.solve(group[0])
            return outcome, _lines(group, outcome)
        except (ReameError, *OF_DISK):
            raise
        except Exception:
            log.exception("line %d of a batch failed", group[0].number)
        failure = RequestError("the server failed with this request; see its log", status=500, code="internal_error")
        outcome = refusal(failure)
        return outcome, _lines(group, outcome)

    async def _write(self, lines: bytes) -> None:
        """Results that come while others are being written go to the disk together."""
        self._unwritten.append(lines)
        async with self._disk:
            if self._unwritten:
                together = b"".join(self._unwritten)
                self._unwritten.clear()
                await trio.to_thread.run_sync(self._journal.append, together)


def _lines(group: tuple[Record, ...], outcome: Outcome) -> bytes:
    return b"".join(result_line(record.id, record.custom_id, outcome) for record in group)
