"""From the config to all that serves: the models in the decode thread, the memory, and what is put together of them."""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from reame.catalog import resolve
from reame.engine.footprint import PROCESS
from reame.engine.llama import LlamaEngine
from reame.engine.step import StepRunner
from reame.runtime.archiving import open_archive
from reame.runtime.drafting import draft_model_options, load_draft_model, new_drafter, outlook, why_off
from reame.runtime.embeddings import load_embedder
from reame.runtime.first_steps import take_first_steps
from reame.runtime.fit import expected, trained_context
from reame.runtime.model import new_scheduler, options_for, served_model, try_out
from reame.runtime.profile import profile_for, seed
from reame.runtime.recall import open_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reame.config import Config
    from reame.core.scheduler import Scheduler
    from reame.doctor.profile import Profile
    from reame.engine.base import Engine
    from reame.engine.draft_model import DraftModel
    from reame.engine.llama import LlamaOptions
    from reame.engine.thread import Caller
    from reame.runtime.embeddings import Embedder
    from reame.runtime.memory import Memory
    from reame.runtime.prompts import ServedModel

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class Loaded:
    """What was read from files. `draft_model` is tried out, but not loaded yet; `embedder` comes with its name."""

    engine: Engine
    options: LlamaOptions
    profile: Profile | None
    memory: Memory
    draft_model: tuple[Path, LlamaOptions] | None
    embedder: tuple[str, Embedder] | None


@frozen(kw_only=True)
class Parts:
    """What the decode loop works with. `speculates`: it has a source of drafts."""

    engine: Engine
    draft_model: DraftModel | None
    scheduler: Scheduler
    runner: StepRunner
    model: ServedModel

    def set_threads(self, decode: int, prefill: int) -> None:
        """For the decode thread, between two steps: of the model and of the draft model."""
        self.engine.set_threads(decode, prefill)
        if self.draft_model is not None:
            self.draft_model.set_threads(decode, prefill)

    def close(self) -> None:
        """For the decode thread."""
        if self.draft_model is not None:
            self.draft_model.close()
        self.runner.close()


async def load(
    config: Config, path: Path, thread: Caller, *, go_on: Callable[[], bool], on_progress: Callable[[float], bool]
) -> Loaded:
    """Raises ModelError when a model does not load or run here, or `go_on` said no."""
    started = time.monotonic()
    profile = await trio.to_thread.run_sync(partial(profile_for, path, go_on), abandon_on_cancel=True)
    trained = await trio.to_thread.run_sync(trained_context, path)
    options = options_for(config, profile, trained=trained)
    trial = partial(try_out, config, path, options, go_on=go_on)
    options = await trio.to_thread.run_sync(trial, abandon_on_cancel=True)
    find = partial(draft_model_options, config, options, go_on=go_on, beside=await _held(path, options))
    draft_model = await trio.to_thread.run_sync(find, abandon_on_cancel=True)
    memory = await trio.to_thread.run_sync(partial(open_memory, config, path, options, go_on=go_on))
    engine = await thread.call(lambda: LlamaEngine(path, options, on_progress=on_progress))
    to_come = await _held(*draft_model) if draft_model else 0
    embedder = await _load_embedder(config, options, thread, go_on, beside=to_come)
    log.info("model loaded in %.1f s", time.monotonic() - started)
    return Loaded(
        engine=engine, options=options, profile=profile, memory=memory, draft_model=draft_model, embedder=embedder
    )


async def _held(path: Path, options: LlamaOptions) -> int:
    """Bytes that loading this will take, the process itself left out; 0 when its file does not tell."""
    needs = await trio.to_thread.run_sync(expected, path, options)
    return max(0, needs.held - PROCESS) if needs else 0


async def _load_embedder(
    config: Config, options: LlamaOptions, thread: Caller, go_on: Callable[[], bool], *, beside: int
) -> tuple[str, Embedder] | None:
    if not config.embeddings.model:
        return None
    path = await trio.to_thread.run_sync(resolve, config.embeddings.model)
    find = partial(load_embedder, config, path, options, go_on=go_on, beside=beside)
    embedder = await thread.call(await trio.to_thread.run_sync(find, abandon_on_cancel=True))
    name = config.embeddings.id or path.stem
    log.info("embeddings: %s, %d dimensions", name, embedder.size)
    return name, embedder


async def put_together(config: Config, path: Path, model_id: str, loaded: Loaded, thread: Caller) -> Parts:
    """Takes the first steps, and gives the memory its archive."""
    engine, memory = loaded.engine, loaded.memory
    memory.kept.whole_state = engine.info.whole_state
    scheduler = new_scheduler(config, engine, memory.block_tokens)
    is_seeded = seed(scheduler.cost, loaded.profile, loaded.options)
    await thread.call(partial(take_first_steps, engine, scheduler.cost, is_seeded=is_seeded))
    model = await trio.to_thread.run_sync(served_model, config, path, model_id, engine)
    assert model.constraints is not None
    memory.kept.archive = await trio.to_thread.run_sync(open_archive, config, engine.vocabulary, engine.info.vocab_size)
    drafter, draft_model = new_drafter(config, engine.vocabulary, memory.kept.archive), None
    if engine.info.whole_state:
        drafter = None
    log.info("%s", outlook(scheduler.cost) if drafter else f"speculation off: {why_off(engine)}")
    if drafter and loaded.draft_model:
        draft_model = await thread.call(partial(load_draft_model, loaded.draft_model, engine, scheduler))
        drafter.last_resort = draft_model
    runner = StepRunner(engine, drafter, model.constraints.matcher, model.pieces)
    return Parts(engine=engine, draft_model=draft_model, scheduler=scheduler, runner=runner, model=model)
