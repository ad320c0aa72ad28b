"""The steps of `reame doctor`: read the machine, measure in children, advise, show, and write when asked."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import evolve, frozen
from rich.console import Console

from reame.catalog import CATALOG, resolve
from reame.commands.batch_remote import health
from reame.commands.doctor_progress import shown_on
from reame.commands.doctor_write import change_of, keep_profile, target_file, write_settings
from reame.commands.warm_work import Daemon
from reame.config_load import load_config
from reame.doctor.advice import Finding, Level, Own
from reame.doctor.advise import advise
from reame.doctor.bench import NUM_CELLS
from reame.doctor.measure import Plan, measure
from reame.doctor.report import as_json, show
from reame.errors import ModelError
from reame.host.features import llama_library
from reame.host.probe import probe
from reame.runtime import logs
from reame.runtime.fit import expected, fitted, trained_context
from reame.runtime.model import cache_dir, options_for, try_out
from reame.runtime.recall import memory_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.config import Config
    from reame.doctor.results import Measured
    from reame.engine.footprint import Footprint
    from reame.engine.llama import LlamaOptions
    from reame.host.probe import Machine

PIPE_WIDTH = 120
"""Columns of a report that no terminal limits."""
_END_S = 3.0
"""Seconds that the children have to end after Ctrl-C; it takes them a tenth of one."""


@frozen(kw_only=True)
class Wanted:
    """The command line. `file` None: the configuration file that was read."""

    model: str
    config: Path | None
    sets: tuple[str, ...]
    quick: bool
    seconds: float
    as_json: bool
    write: bool
    file: Path | None
    yes: bool


@frozen(kw_only=True)
class Examined:
    """What came of trying: `options` are those with which the model runs, `path` None without a model."""

    options: LlamaOptions
    path: Path | None = None
    measured: Measured | None = None
    memory: Footprint | None = None
    """What the daemon will take with it."""
    findings: tuple[Finding, ...] = ()


async def examine(wanted: Wanted) -> int:
    """The exit status: 1 when something cannot work."""
    loaded = load_config(wanted.config, sets=wanted.sets)
    logs.configure("warning", loaded.config.log.format)
    target = target_file(wanted.file, loaded.source) if wanted.write else None
    config, spec = loaded.config, wanted.model or loaded.config.model.path
    if wanted.model:
        resolve(wanted.model)  # a name that means nothing is said at once
    machine = probe(cache=memory_dir(config), library=llama_library())
    own = await _own(config)
    found = await _examine(wanted, config, spec, machine)
    report = advise(
        machine, found.measured, config, found.options, catalogue=CATALOG, memory=found.memory, more=found.findings,
        own=own,
    )  # fmt: skip
    if wanted.as_json:
        print(json.dumps(as_json(report), indent=2))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
        show(report, Console(width=width))
    if target is not None and not report.has_fault:
        await write_settings(change_of(target, report, model=wanted.model), ask=not wanted.yes)
        await keep_profile(found, config, cache_dir())
    return int(report.has_fault)


async def _own(config: Config) -> Own:
    """What this config's daemon has of the machine already, whether it runs or not."""
    serves = await health(Daemon.of(config.server)) is not None
    return Own(serves=serves, disk_bytes=await trio.to_thread.run_sync(_bytes_below, memory_dir(config)))


def _bytes_below(directory: Path) -> int:
    size = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                size += (Path(folder) / name).lstat().st_blocks * 512
    return size


async def _examine(wanted: Wanted, config: Config, spec: str, machine: Machine) -> Examined:
    if machine.missing:
        return Examined(options=options_for(config))
    path, findings = _model(spec)
    options = options_for(config, trained=trained_context(path) if path else 0)
    if wanted.quick:
        if path is None:
            return Examined(options=options)
        return Examined(options=options, memory=expected(path, options), findings=_fit(config, path, options))
    stop = threading.Event()

    def work(on_progress: Callable[[float, str], None]) -> Examined:
        on_progress(0.0, "trying the model")
        usable, more = options, findings
        here = path
        if here is not None:
            try:
                usable, told = _tried(config, here, options, go_on=lambda: not stop.is_set())
                more = (*more, *told)
            except ModelError as error:
                here, more = None, (*more, Finding(Level.FAULT, str(error)))
        name = here.stem if here else ""
        plan = Plan(model=here, name=name, options=usable, folder=memory_dir(config), seconds=wanted.seconds)
        measured = measure(plan, machine.share, on_progress=on_progress, go_on=lambda: not stop.is_set())
        memory = expected(here, usable) if here else None
        return Examined(options=usable, path=here, measured=measured, memory=memory, findings=more)

    with shown_on(sys.stderr) as on_progress:
        return await _in_thread(lambda: work(on_progress), stop)


def _tried(
    config: Config, path: Path, options: LlamaOptions, *, go_on: Callable[[], bool]
) -> tuple[LlamaOptions, tuple[Finding, ...]]:
    """With few cells, as it is measured: that there is no room for all of them is a finding, and what fits is advised.

    Raises ModelError when the model does not run at all.
    """
    few = evolve(options, num_cells=min(NUM_CELLS, options.num_cells or NUM_CELLS))
    usable = evolve(try_out(config, path, few, go_on=go_on), num_cells=options.num_cells)
    return usable, _fit(config, path, usable)


def _fit(config: Config, path: Path, options: LlamaOptions) -> tuple[Finding, ...]:
    try:
        fitted(path, options, may_switch=config.engine.extra_buffers == "auto")
    except ModelError as error:
        return (Finding(Level.WARNING, f"as configured, the daemon would not start: {error}"),)
    return ()


async def _in_thread(work: Callable[[], Examined], stop: threading.Event) -> Examined:
    """Ctrl-C ends it, and waits until the children are gone."""
    ended, trio_thread = trio.Event(), trio.lowlevel.current_trio_token()

    def run() -> Examined:
        try:
            return work()
        finally:
            trio_thread.run_sync_soon(ended.set)

    try:
        return await trio.to_thread.run_sync(run, abandon_on_cancel=True)
    except BaseException:
        stop.set()
        with trio.CancelScope(shield=True), trio.move_on_after(_END_S):
            await ended.wait()
        raise


def _model(spec: str) -> tuple[Path | None, tuple[Finding, ...]]:
    """The file to measure with, or why there is none."""
    try:
        path = resolve(spec)
    except ModelError as error:
        return None, (Finding(Level.NOTE, f"only the machine was measured: {error}"),)
    return path, ()
