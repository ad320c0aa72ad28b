"""The batches of the API, run behind everybody else: of one key one after the other, of several keys at once.

A batch lives on the disk (`reame.batch.shelf`): whatever ends the daemon, `run` of the next one goes on with it.
Several daemons may share the disk: a batch is for the model that was served when it came, and who has its journal works
on it. Bound: one batch a key is under way, and of it what `BatchRun` holds.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import trio

from reame.batch import order
from reame.batch.account import Account
from reame.batch.handing_out import expire, hand_out
from reame.batch.journal import Journal, JournalBusyError
from reame.batch.plan import Plan
from reame.batch.shelf import OPEN, new_id
from reame.errors import RequestError
from reame.runtime.batch_faults import BATCH_FAILED, OF_DISK, decisive, for_clients
from reame.runtime.batch_run import BatchRun
from reame.runtime.batch_running import Running, Share
from reame.runtime.model import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.batch.shelf import Shelf, Told
    from reame.config import Config
    from reame.runtime.batch_run import Solver

T = TypeVar("T")
CLEAN_S = 3600.0
"""Between two looks for what has been kept long enough, and for what nobody works on any more."""
STOPPABLE = ("validating", "in_progress")
NO_ROOM, DISK_ERROR = "no_room", "disk_error"
log = logging.getLogger(__name__)


def batches_dir(config: Config) -> Path:
    return Path(config.batch.path) if config.batch.path else cache_dir() / "batches"


class Batches:
    """`run` is to be started once, and ends when it is cancelled. `new_solver` is given the name of an API key; it
    answers with the model `model_id`."""

    def __init__(self, shelf: Shelf, new_solver: Callable[[str], Solver], model_id: str) -> None:
        self.shelf = shelf
        self.model_id = model_id
        self._new_solver = new_solver
        self._disk = trio.CapacityLimiter(1)
        self._waiting: dict[str, deque[str]] = {}
        self._running: dict[str, Running] = {}
        self._nursery: trio.Nursery | None = None

    async def on_disk(self, function: Callable[..., T], *args: object) -> T:
        """A method of the shelf, in a thread. RequestError (500) when the disk fails."""
        try:
            return await trio.to_thread.run_sync(partial(function, *args), limiter=self._disk)
        except OSError as error:
            log.error("the disk of the batches failed: %s", error)
            message = "the server cannot read or write its disk: free some of it, or see its log"
            raise RequestError(message, status=500, code=DISK_ERROR) from None

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            while True:
                with suppress(RequestError):
                    for key, name in await self.on_disk(lambda: list(self.shelf.unfinished())):
                        self._enqueue(key, name)
                with suppress(RequestError):
                    await self.on_disk(self.shelf.expire, time.time())
                await trio.sleep(CLEAN_S)

    async def create(self, key: str, told: Told) -> None:
        await self.on_disk(self.shelf.add_batch, key, told)
        self._enqueue(key, told["id"])

    async def retrieve(self, key: str, name: str) -> Told:
        told = await self.on_disk(self.shelf.batch, key, name)
        running = self._running.get(name)
        return running.now_told() if running else told

    async def listed(self, key: str) -> list[Told]:
        """Newest first."""
        listed = await self.on_disk(self.shelf.batches, key)
        return [self._running[told["id"]].now_told() if told["id"] in self._running else told for told in listed]

    async def cancel(self, key: str, name: str) -> Told:
        """Stop it, with what is done; one that is over stays as it is."""
        told = await self.on_disk(self._mark, key, name)
        running = self._running.get(name)
        if running and running.told["status"] in STOPPABLE:
            running.told, running.end = order.moved(running.told, "cancelling", time.time()), "cancelled"
            running.scope.cancel()
        elif not running and told["status"] == "cancelling":
            self._enqueue(key, name)
        return running.now_told() if running else told

    def _mark(self, key: str, name: str) -> Told:
        told = self.shelf.batch(key, name)
        if told["status"] in STOPPABLE:
            told = order.moved(told, "cancelling", time.time())
            self.shelf.save_batch(key, told)
        return told

    def _enqueue(self, key: str, name: str) -> None:
        waiting = self._waiting.setdefault(key, deque())
        if name in waiting:
            return
        waiting.append(name)
        if len(waiting) == 1 and self._nursery is not None:
            self._nursery.start_soon(self._work, key)

    async def _work(self, key: str) -> None:
        waiting = self._waiting[key]
        while waiting:
            await self._see_through(key, waiting[0])
            waiting.popleft()

    async def _see_through(self, key: str, name: str) -> None:
        """To its end, whatever goes wrong with it: others are served on."""
        try:
            told = await self.on_disk(self.shelf.batch, key, name)
        except RequestError:
            return  # deleted from the disk by hand
        if told["status"] not in OPEN or not self._is_ours(told):
            return
        running = self._running[name] = Running(told)
        try:
            await self._carry_out(key, running)
        except JournalBusyError:
            log.info("batch %s: another daemon works on it", name)
            del self._running[name]
            return
        except Exception as error:
            if isinstance(error, OF_DISK) or getattr(error, "code", None) == DISK_ERROR:
                log.error("batch %s waits until the disk works again, with what is done: %s", name, error)
                del self._running[name]
                return
            fault = for_clients(error, name)
            running.told = order.failed(running.told, fault.code or BATCH_FAILED, fault.message, time.time())
        running.told = running.now_told()
        log.info("batch %s: %s, %s", name, running.told["status"], running.told["request_counts"])
        with suppress(RequestError):
            await self.on_disk(self.shelf.save_batch, key, running.told)
            if running.is_handed_out or not await self.on_disk(self.shelf.has_journal, key, name):
                await self.on_disk(self.shelf.forget_journal, key, name)
            else:
                log.error("batch %s: what was done is left in %s", name, self.shelf.journal_path(key, name))
        del self._running[name]

    def _is_ours(self, told: Told) -> bool:
        """Another model's waits for a daemon with that model, as long as it has time."""
        needs_model = told["status"] != "cancelling" and told["expires_at"] > time.time()
        if not needs_model or told.get("model") in (None, self.model_id):
            return True
        log.info("batch %s waits until the model %s is served", told["id"], told["model"])
        return False

    async def _carry_out(self, key: str, running: Running) -> None:
        if running.told["status"] == "cancelling":
            running.end = "cancelled"
        source = self.shelf.data_path(key, running.told["input_file_id"])
        plan = Plan(source, url=running.told["endpoint"])
        try:
            journal = Journal(self.shelf.journal_path(key, running.told["id"]))
            try:
                await self._compute(key, running, plan, journal)
                await self._hand_out(key, running, plan, journal)
            finally:
                journal.close()
        finally:
            plan.close()

    async def _compute(self, key: str, running: Running, plan: Plan, journal: Journal) -> None:
        await trio.to_thread.run_sync(plan.scan, {})
        found = await trio.to_thread.run_sync(partial(plan.resume, journal, retry=False))
        if not found.lines:
            raise RequestError("the input file has no lines", code="empty_file")
        running.account = Account(found.lines, found.done, trio.current_time(), found.failed)
        if running.end != "completed":
            return
        running.told = order.moved(running.told, "in_progress", time.time())
        await self.on_disk(self.shelf.save_batch, key, running.told)
        solver = Share(self._new_solver(key), self._running)
        run = BatchRun(plan, journal, solver, running.account, partial(self._check_size, journal))
        running.scope.deadline = trio.current_time() + running.told["expires_at"] - time.time()
        fault: BaseException | None = None
        with running.scope:
            try:
                await run.run()
            except* Exception as errors:
                fault = decisive(errors)
        if isinstance(fault, OF_DISK):
            raise fault
        if fault is not None:
            running.end, running.fault = "failed", for_clients(fault, running.told["id"])
        if running.scope.cancelled_caught and running.end == "completed":
            running.end = "expired"

    def _check_size(self, journal: Journal) -> None:
        if journal.size > self.shelf.room:
            raise RequestError(
                f"the results take more than the {self.shelf.room >> 20} MiB that a key may have (batch.room_mb): make "
                "smaller batches",
                code=NO_ROOM,
            )

    async def _hand_out(self, key: str, running: Running, plan: Plan, journal: Journal) -> None:
        """Answers become one file, errors another one."""
        told = running.told
        if running.end == "completed":
            told = order.moved(told, "finalizing", time.time())
        names = {"output_file_id": new_id("file"), "error_file_id": new_id("file")}
        running.told = told | {name: told[name] or new for name, new in names.items()}
        await self.on_disk(self.shelf.save_batch, key, running.told)
        if running.end == "expired":
            await self.on_disk(expire, plan, journal)
        made = await self.on_disk(hand_out, self.shelf, key, running.told, plan, journal)
        running.is_handed_out = True
        if running.fault:
            code = running.fault.code or BATCH_FAILED
            running.told = order.failed(running.told | made, code, running.fault.message, time.time())
        else:
            running.told = order.moved(running.told, running.end, time.time(), **made)
