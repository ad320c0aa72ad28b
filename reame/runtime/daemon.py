"""The daemon: one nursery with the front (HTTP), the decode loop, the tuner, the cache flusher and the signal watcher.

Order of the end: no new requests; the front lets the running ones finish; the job channel closes; the decode loop
ends; the flusher writes what is left; the engine is closed in its own thread; the thread ends.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
from typing import TYPE_CHECKING, Protocol

import trio

from reame.engine.spin import spin_switch
from reame.engine.thread import decode_thread
from reame.errors import ModelError, RequestError
from reame.host.thread_room import thread_room
from reame.runtime.decode import DecodeLoop
from reame.runtime.embeddings import Embeddings
from reame.runtime.forgetting import Forgetting, open_inbox
from reame.runtime.loading import load, put_together
from reame.runtime.notify import Supervisor
from reame.runtime.reload import has_terminal
from reame.runtime.tuner import Tuner, may_adapt
from reame.runtime.watchdog import watch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from reame.config import Config
    from reame.engine.thread import Caller
    from reame.runtime.intake import Intake
    from reame.runtime.loading import Loaded, Parts
    from reame.runtime.metrics import Metrics

log = logging.getLogger(__name__)

LAST_WRITES_S = 60.0
"""Seconds after the grace period that the service manager is asked for, to write what is remembered to a slow disk."""

RUN_AHEAD = 32
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
    SIGTERM, but not for who was started to outlive it (nohup). A `supervisor` is told what happens.
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
        self._outlives_it = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        self._supervisor = supervisor or Supervisor({})
        self._stopping = trio.Event()
        self._loop: DecodeLoop | None = None

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
                    await self._serve(thread, loaded)
                nursery.cancel_scope.cancel()
        log.info("stopped")

    async def _bring_requests(self, task_status: trio.TaskStatus[list[str]]) -> None:
        try:
            await self._front(shutdown_trigger=self._stopping.wait, task_status=task_status)
        finally:
            self._supervisor.stopping(self._config.server.grace_s + LAST_WRITES_S)
            self._stopping.set()
            self._intake.close()

    async def _load(self, thread: Caller) -> Loaded | None:
        """None when a signal came first."""
        try:
            loaded = await load(self._config, self._path, thread, go_on=self._goes_on, on_progress=self._progress)
        except ModelError:
            if self._stopping.is_set():
                return None
            raise
        if loaded.embedder:
            name, embedder = loaded.embedder
            bounds = self._config.scheduler
            self._intake.embeddings = Embeddings(name, embedder, thread, self._metrics, self._intake.tokens, bounds)
        return loaded

    def _goes_on(self) -> bool:
        return not self._stopping.is_set()

    def _progress(self, share: float) -> bool:
        """From the decode thread; a plain assignment, so no lock. False ends the load."""
        self._intake.detail = f"loading {self._intake.model_id}: {share:.0%}"
        return self._goes_on()

    async def _serve(self, thread: Caller, loaded: Loaded) -> None:
        memory = loaded.memory
        self._metrics.watch(memory)
        parts = await put_together(self._config, self._path, self._intake.model_id, loaded, thread)
        model, tuner = parts.model, self._tuner(thread, loaded, parts)
        loop = DecodeLoop(
            parts.scheduler, parts.runner, thread, self._intake.jobs, memory, self._metrics,
            run_ahead=RUN_AHEAD, tell_time=tuner.tell,
        )  # fmt: skip
        gc.collect()
        gc.freeze()  # what is loaded stays, and a full collection that looks at it again takes tens of milliseconds
        if not self._stopping.is_set():
            self._loop = loop
            self._intake.opened(model, loop, memory)
            log.info("ready: %s", model.id)
            self._supervisor.ready(self._intake.detail)
        inbox = await trio.to_thread.run_sync(open_inbox, self._config)
        forgetting = Forgetting(inbox, loop, memory, self._intake.embeddings)
        memory.is_busy = lambda: bool(parts.scheduler.running)
        if self._intake.embeddings is not None:
            self._intake.embeddings.is_busy = memory.is_busy
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(memory.run)
                nursery.start_soon(tuner.run)
                nursery.start_soon(forgetting.run)
                await loop.run()
                tuner.close()
                forgetting.close()
                memory.close()
        finally:
            if inbox is not None:
                inbox.close()
        if self._intake.embeddings is not None:
            await self._intake.embeddings.close()
        await thread.call(parts.close)
        if model.constraints is not None:
            model.constraints.close()

    def _tuner(self, thread: Caller, loaded: Loaded, parts: Parts) -> Tuner:
        return Tuner(
            thread,
            parts.set_threads,
            parts.scheduler,
            self._metrics,
            threads=loaded.options.threads,
            prefill_threads=loaded.options.prefill_threads,
            adapts=may_adapt(self._config.engine),
            speculates=self._config.speculation.enabled,
            spin=spin_switch(thread_room),
        )

    async def _watch(self, signals: AsyncIterator[int], nursery: trio.Nursery) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP and (self._outlives_it or has_terminal() == self._had_terminal):
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
