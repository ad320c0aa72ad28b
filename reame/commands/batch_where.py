"""Who computes a batch: a daemon that runs, or the model in this process, as `reame run` has it."""

from __future__ import annotations

import logging
import signal
from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import asdict, fields_dict

from reame.api.batch_local import LocalSolver
from reame.catalog import identify, models_dir
from reame.commands.batch_remote import RemoteSolver, health
from reame.commands.front import INTERRUPTED, TERMINATED, TerminalFront, unless_interrupted
from reame.commands.launch import LONGEST_S, fetch, wanted_keys
from reame.commands.warm_work import Daemon as Remote
from reame.config_load import override
from reame.core.request import Sampling
from reame.errors import ConfigError
from reame.runtime import logs
from reame.runtime.daemon import Daemon
from reame.runtime.intake import Intake
from reame.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from reame.commands.screen import Screen
    from reame.config import Config
    from reame.config_load import Loaded
    from reame.runtime.batch_run import Solver


class Work(Protocol):
    """What is to be done with whoever answers."""

    async def __call__(self, solver: Solver) -> None: ...


async def find(config: Config, url: str, key_file: Path | None) -> Remote | None:
    """The daemon at `url`; without one, that of this config on this machine, if it runs. ConfigError when one was
    named and is not there."""
    remote = Remote.at(url, key_file) if url else Remote.of(config.server, key_file)
    if await health(remote) is not None:
        return remote
    if url or key_file is not None:
        raise ConfigError(
            f"nothing answers at {remote.url}: start the daemon with `reame serve`, say with --url where it is, or "
            "leave --url and --key-file out to load the model here"
        )
    return None


async def through(remote: Remote, screen: Screen, work: Work) -> int:
    """Have the daemon do it. The exit status: 0, or that of the signal that ended it."""
    screen.note(f"reame: the daemon at {remote.url} does this when nobody else wants anything")
    status = 0
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async with remote.session() as session, trio.open_nursery() as nursery:

            async def end_on_signal() -> None:
                nonlocal status
                async for number in signals:
                    status = TERMINATED if number == signal.SIGTERM else INTERRUPTED
                    nursery.cancel_scope.cancel()

            nursery.start_soon(end_on_signal)
            await work(RemoteSolver(remote, session, (await health(remote) or {}).get("slots", {})))
            nursery.cancel_scope.cancel()
    return status


async def here(loaded: Loaded, model: str, screen: Screen, work: Work) -> int:
    """Load the model in this process and do it. The exit status: 0, or that of the signal that ended it."""
    named = identify(model or loaded.config.model.path, models_dir())
    config = _config_for(loaded, model, str(named.path), named.name)
    await fetch(named, model or loaded.config.model.path)
    screen.note(f"reame: {config.model.id} does this, in this process")
    logs.configure(config.log.level, config.log.format)
    if config.log.level == "warning":
        logging.getLogger("reame.runtime.model").setLevel(logging.ERROR)
    metrics = Metrics()
    intake = Intake(config, config.model.id, metrics)
    solver = LocalSolver(config, intake, _sampling(config))

    async def talk(interrupts: AsyncIterator[int]) -> int:
        done = await unless_interrupted(interrupts, partial(work, solver))
        return 0 if done else INTERRUPTED

    front = TerminalFront(intake, screen, talk)
    await Daemon(config, named.path, intake, metrics, front, signals=(signal.SIGTERM,)).run()
    return front.status


def _config_for(loaded: Loaded, model: str, path: str, name: str) -> Config:
    """The config for a process with nobody but the batch in it. What it says of another model does not hold."""
    given = wanted_keys(loaded)
    values: dict[str, object] = {"model.path": path, "scheduler.request_timeout_s": LONGEST_S}
    if model and model != loaded.config.model.path:
        values |= {key: "" for key in ("model.id", "model.chat_template") if key not in given}
    if "log.level" not in given:
        values["log.level"] = "warning"
    config = override(loaded.config, values, "the options")
    return config if config.model.id else override(config, {"model.id": name}, "the options")


def _sampling(config: Config) -> Sampling:
    values = asdict(config.sampling)
    return Sampling(**{name: value for name, value in values.items() if name in fields_dict(Sampling)})
