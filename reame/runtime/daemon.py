"""The daemon: one nursery with the front (HTTP), the decode loop, the cache flusher and the signal watcher.

Order of the end: no new requests; the front lets the running ones finish; the job channel closes; the decode loop
ends; the flusher writes what is left; the engine is closed in its own thread; the thread ends.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio

from reame.catalog import resolve
from reame.engine.llama import LlamaEngine
from reame.engine.thread import decode_thread
from reame.errors import ModelError, RequestError
from reame.runtime.archiving import open_archive
from reame.runtime.decode import DecodeLoop
from reame.runtime.drafting import draft_model_options, load_draft_model, new_drafter, outlook
from reame.runtime.embeddings import Embeddings, load_embedder
from reame.runtime.first_steps import take_first_steps
from reame.runtime.model import new_scheduler, options_for, served_model, try_out
from reame.runtime.notify import Supervisor
from reame.runtime.profile import profile_for, seed
from reame.runtime.recall import open_memory
from reame.runtime.reload import has_terminal
from reame.runtime.tuning import ThreadTuning, TunedRunner
from reame.runtime.watchdog import watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from reame.config import Config
    from reame.core.cost import StepCost
    from reame.engine.base import Engine
    from reame.engine.llama import LlamaOptions
    from reame.engine.thread import Caller
    from reame.runtime.intake import Intake
    from reame.runtime.memory import Memory
    from reame.runtime.metrics import Metrics

log = logging.getLogger(__name__)

LAST_WRITES_S = 60.0
"""Seconds after the grace period that the service manager is asked for, to write what is remembered to a slow disk."""

RUN_AHEAD = 8
"""Steps that the decode thread may take without asking; it looks after each whether somebody came or left."""


class Front(Protocol):
    """Brings requests to the intake until it has no more or `shutdown_trigger` returns: the HTTP server, or a chat in
    the terminal. Reports the URLs it listens on.
    """

    async def __call__(
        self, *, shutdown_trigger: Callable[[], Awaitable[None]], task_status: trio.TaskStatus[list[str]]
    ) -> None: ...


class Daemon:
    """`run` serves until SIGTERM or SIGINT: requests inside may finish for `server.grace_s`. A second signal ends the
    process at once, with status 1: nothing that is stored needs a clean end. A front that wants a signal for itself
    leaves it out of `signals`. When the front ends by itself, so does the daemon.

    SIGHUP runs `reload` in a thread, if there is one; when it comes because the terminal is gone it is an end like
    SIGTERM. A `supervisor` is told what happens.
    """

    def __init__(
        self,
        config: Config,
        path: Path,
        intake: Intake,
        metrics: Metrics,
        front: Front,
        *,
        signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT),
        reload: Callable[[], object] | None = None,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._config = config
        self._path = path
        self._intake = intake
        self._metrics = metrics
        self._front = front
        self._signals = (*signals, signal.SIGHUP) if reload else signals
        self._reload = reload
        self._reloads = trio.CapacityLimiter(1)
        self._had_terminal = has_terminal()
        self._supervisor = supervisor or Supervisor({})
        self._stopping = trio.Event()
        self._loop: DecodeLoop | None = None
        self._draft_model: tuple[Path, LlamaOptions] | None = None
        self._seed: Callable[[StepCost], None] = lambda cost: None
        self._threads = 1, 1

    async def run(self) -> None:
        """Raises ModelError (in a group) when the model does not load or run here."""
        with trio.open_signal_receiver(*self._signals) as signals:
            async with trio.open_nursery() as nursery, decode_thread() as thread:
                nursery.start_soon(self._watch, signals, nursery)
                nursery.start_soon(watch, self._supervisor, self._intake)
                urls = await nursery.start(self._bring_requests)
                log.info("listening on %s, loading %s", ", ".join(urls), self._intake.model_id)
                loaded = await self._load(thread)
                if loaded is not None:
                    await self._serve(thread, *loaded)
                nursery.cancel_scope.cancel()
        log.info("stopped")

    async def _bring_requests(self, task_status: trio.TaskStatus[list[str]]) -> None:
        try:
            await self._front(shutdown_trigger=self._stopping.wait, task_status=task_status)
        finally:
            self._supervisor.stopping(self._config.server.grace_s + LAST_WRITES_S)
            self._stopping.set()
            self._intake.close()

    async def _load(self, thread: Caller) -> tuple[Engine, Memory] | None:
        """None when a signal came first."""
        started = time.monotonic()
        try:
            profile = await trio.to_thread.run_sync(partial(profile_for, self._path), abandon_on_cancel=True)
            options = options_for(self._config, profile)
            options = await trio.to_thread.run_sync(
                partial(try_out, self._config, self._path, options, go_on=lambda: not self._stopping.is_set()),
                abandon_on_cancel=True,
            )
            find = partial(draft_model_options, self._config, options, go_on=lambda: not self._stopping.is_set())
            self._draft_model = await trio.to_thread.run_sync(find, abandon_on_cancel=True)
            memory = await trio.to_thread.run_sync(partial(open_memory, self._config, self._path, options))
            engine = await thread.call(lambda: LlamaEngine(self._path, options, on_progress=self._progress))
            await self._load_embedder(thread, options)
        except ModelError:
            if self._stopping.is_set():
                return None
            raise
        log.info("model loaded in %.1f s", time.monotonic() - started)
        self._seed = partial(seed, profile=profile, options=options)
        self._threads = options.threads, options.prefill_threads
        return engine, memory

    async def _load_embedder(self, thread: Caller, options: LlamaOptions) -> None:
        if not self._config.embeddings.model:
            return
        path = await trio.to_thread.run_sync(resolve, self._config.embeddings.model)
        find = partial(load_embedder, self._config, path, options, go_on=lambda: not self._stopping.is_set())
        load = await trio.to_thread.run_sync(find, abandon_on_cancel=True)
        embedder = await thread.call(load)
        name = self._config.embeddings.id or path.stem
        self._intake.embeddings = Embeddings(name, embedder, thread, self._metrics, self._intake.tokens)
        log.info("embeddings: %s, %d dimensions", name, embedder.size)

    def _progress(self, share: float) -> bool:
        """From the decode thread; a plain assignment, so no lock. False ends the load."""
        self._intake.detail = f"loading {self._intake.model_id}: {share:.0%}"
        return not self._stopping.is_set()

    async def _serve(self, thread: Caller, engine: Engine, memory: Memory) -> None:
        scheduler = new_scheduler(self._config, engine, memory.block_tokens)
        self._seed(scheduler.cost)
        self._metrics.watch(memory)
        await thread.call(partial(take_first_steps, engine, scheduler.cost))
        model = await trio.to_thread.run_sync(
            served_model, self._config, self._path, self._intake.model_id, engine
        )
        assert model.constraints is not None
        memory.archive = await trio.to_thread.run_sync(
            open_archive, self._config, engine.vocabulary, engine.info.vocab_size
        )
        drafter = new_drafter(self._config, engine.vocabulary, memory.archive)
        log.info("%s", outlook(scheduler.cost) if drafter else "speculation off: speculation.enabled is false")
        if drafter and self._draft_model:
            drafter.last_resort = await thread.call(partial(load_draft_model, self._draft_model, engine, scheduler))
        runner = TunedRunner(engine, drafter, model.constraints.matcher, model.pieces)
        self._tune(runner, engine)
        loop = DecodeLoop(scheduler, runner, thread, self._intake.jobs, memory, self._metrics, run_ahead=RUN_AHEAD)
        gc.collect()
        gc.freeze()  # what is loaded stays, and a full collection that looks at it again takes tens of milliseconds
        if not self._stopping.is_set():
            self._loop = loop
            self._intake.opened(model, loop, memory)
            log.info("ready: %s", model.id)
            self._supervisor.ready(self._intake.detail)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(memory.run)
            await loop.run()
            memory.close()
        if self._intake.embeddings is not None:
            await self._intake.embeddings.close()
        await thread.call(runner.close)
        model.constraints.close()

    def _tune(self, runner: TunedRunner, engine: Engine) -> None:
        decode, prefill = self._threads
        tuning = ThreadTuning(engine, decode=decode, prefill=prefill)
        if self._config.engine.adapt_threads:
            runner.tuning = tuning
        self._metrics.threads.set_function(lambda: tuning.threads)

    async def _watch(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP and has_terminal() == self._had_terminal:
                nursery.start_soon(self._read_again)
                continue
            if self._stopping.is_set():
                log.warning("%s again: stopping at once", name)
                logging.shutdown()
                os._exit(1)
            log.info("%s: finishing what runs, for %g s at most", name, self._config.server.grace_s)
            self._supervisor.stopping(self._config.server.grace_s + LAST_WRITES_S)
            self._intake.drain()
            self._stopping.set()
            nursery.start_soon(self._end_of_grace)

    async def _read_again(self) -> None:
        assert self._reload is not None
        async with self._reloads:
            self._supervisor.reloading()
            await trio.to_thread.run_sync(self._reload, abandon_on_cancel=True)
            self._supervisor.reloaded()

    async def _end_of_grace(self) -> None:
        await trio.sleep(self._config.server.grace_s)
        if self._loop is not None:
            self._loop.stop(RequestError("the server is stopping", status=503, code="server_stopping", retry_after=5))
