"""From the options of `reame run` to the daemon with a person in front of it: question, model, config, front."""

from __future__ import annotations

import io
import logging
import sys
from functools import partial
from pathlib import Path
from signal import SIGTERM
from typing import TYPE_CHECKING, cast

import trio
from attrs import frozen

from reame.catalog import entry, identify, models_dir, split_parts
from reame.commands.answer import Manner, ask_once
from reame.commands.chat import Chatting
from reame.commands.election import conclave_of
from reame.commands.front import TerminalFront
from reame.commands.keyboard import Keyboard
from reame.commands.progress import shown_on
from reame.commands.screen import Screen, repaired
from reame.config import SchedulerConfig
from reame.config_load import load_config, override
from reame.errors import ConfigError
from reame.pull import ensure
from reame.runtime import logs
from reame.runtime.daemon import Daemon
from reame.runtime.intake import Intake
from reame.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.catalog import Named
    from reame.config import Config
    from reame.config_load import Loaded
    from reame.core.vote import VoteKind

MAX_INPUT = 1 << 24
"""Bytes read from standard input; far above what any context holds."""
INPUT_PATIENCE_S = 2.0
"""Before it is worth a word that the end of standard input is waited for, though a question is there already."""
LONGEST_S = 604_800
"""Seconds that an answer may take when no config says otherwise: the person can stop it."""


@frozen(kw_only=True)
class Wanted:
    """The command line of `reame run`. `flags`: dotted keys of the config that have an option of their own."""

    model: str
    question: str = ""
    stdin: bool = False
    system: str = ""
    seed: int | None = None
    best_of: str = ""
    vote: VoteKind | None = None
    stats: bool = False
    serve: bool = False
    config: Path | None = None
    sets: tuple[str, ...] = ()
    flags: Mapping[str, object]


async def launch(wanted: Wanted) -> int:
    """Do what is wanted; the exit status. All that can be wrong with the options is said before anything is pulled."""
    named = identify(wanted.model, models_dir())
    loaded = load_config(wanted.config, sets=wanted.sets)
    config = config_for(wanted, named, loaded)
    if wanted.serve:
        return await _serve(wanted, named, config)
    manner = Manner(
        config=config,
        seed=wanted.seed,
        system=repaired(wanted.system),
        stats=wanted.stats,
        conclave=conclave_of(wanted.best_of, wanted.vote, config.conclave),
    )
    question = await read_question(wanted)
    await fetch(named, wanted.model)
    return await _converse(named, manner, question)


def config_for(wanted: Wanted, named: Named, loaded: Loaded) -> Config:
    """The config with the flags over it and this model in it. What the file says of another model does not hold.

    A file that `reame config init` wrote names every key, so a value counts as chosen when it is not the default.
    """
    values: dict[str, object] = dict(wanted.flags)
    if loaded.config.model.path != wanted.model:
        others = {"model.id": "", "model.chat_template": ""}
        values.update({key: value for key, value in others.items() if key not in wanted_keys(loaded)})
    if not wanted.serve:
        if not loaded.config.engine.cells:  # as many as a single conversation needs, or several candidates of an answer
            context = cast("int", values.get("engine.context", loaded.config.engine.context))
            values["engine.cells"] = 2 * context if wanted.best_of else context
        if loaded.config.scheduler.request_timeout_s == SchedulerConfig().request_timeout_s:
            values["scheduler.request_timeout_s"] = LONGEST_S
        if "log.level" not in wanted_keys(loaded):
            values["log.level"] = "warning"
    config = override(loaded.config, values, "the options")
    return override(config, {"model.path": str(named.path)} | ({} if config.model.id else {"model.id": named.name}))


def wanted_keys(loaded: Loaded) -> set[str]:
    """Dotted keys that the command line sets, not a file."""
    return {key for key, origin in loaded.origins.items() if origin == "--set"}


async def read_question(wanted: Wanted) -> str | None:
    """The question from the arguments and standard input, or None: a chat. ConfigError when there is neither."""
    piped = ""
    if sys.stdin is not None and (wanted.stdin or not sys.stdin.isatty()):
        piped = _text_of(await _read_input(sys.stdin.fileno(), is_expected=wanted.stdin or not wanted.question))
    elif not wanted.question and sys.stdin is not None and sys.stdout is not None and sys.stdout.isatty():
        return None
    parts = [repaired(part) for part in (wanted.question, piped.rstrip("\n")) if part.strip()]
    if not parts:
        raise ConfigError('there is no question: give one, as in reame run MODEL "Why is the sky blue?", or pipe it in')
    return "\n\n".join(parts)


async def _read_input(descriptor: int, *, is_expected: bool) -> bytes:
    """All of it. Who may not know that there is an input, such as a pipe that was left open, is told what is waited
    for."""
    async with trio.open_nursery() as nursery:
        if not is_expected:
            nursery.start_soon(_tell_of_the_wait)
        data = await trio.to_thread.run_sync(_read_all, descriptor, abandon_on_cancel=True)
        nursery.cancel_scope.cancel()
    return data


async def _tell_of_the_wait() -> None:
    await trio.sleep(INPUT_PATIENCE_S)
    print("also reading standard input up to its end; `< /dev/null` if there is none", file=sys.stderr, flush=True)


def _read_all(descriptor: int) -> bytes:
    """At most a little more than MAX_INPUT. Not through sys.stdin, whose lock an abandoned read would keep while the
    interpreter ends."""
    data = bytearray()
    with io.FileIO(descriptor, closefd=False) as raw:
        while len(data) <= MAX_INPUT and (chunk := raw.read(1 << 16)):
            data += chunk
    return bytes(data)


def _text_of(data: bytes) -> str:
    """ConfigError when it is too much, or no text."""
    if len(data) > MAX_INPUT:
        raise ConfigError(f"standard input is larger than {MAX_INPUT >> 20} MiB: no model reads that much")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"standard input is not UTF-8 text (byte {error.start + 1})") from None


async def fetch(named: Named, spec: str) -> None:
    """Pull what is missing, with progress, and name a licence that asks something; ModelError when the file is not a
    model."""
    if named.source is None or all(part.exists() for part in split_parts(named.path)):
        await ensure(spec)
        return
    with shown_on(sys.stderr) as progress:
        await ensure(spec, progress=progress)
    known = entry(named.name)
    if known and known.has_terms:
        print(f"the licence of {named.name}: {known.licence}", file=sys.stderr)


async def _serve(wanted: Wanted, named: Named, config: Config) -> int:
    asks = wanted.question or wanted.stdin or wanted.system or wanted.seed is not None or wanted.stats
    if asks or wanted.best_of or wanted.vote:
        raise ConfigError(
            "--serve answers clients: leave out the question, --stdin, --system, --seed, --stats, --best-of and --vote"
        )
    from reame.commands.serve import serve_config

    await fetch(named, wanted.model)
    return await serve_config(config)


async def _converse(named: Named, manner: Manner, question: str | None) -> int:
    config = manner.config
    logs.configure(config.log.level, config.log.format)
    if config.log.level == "warning":
        logging.getLogger("reame.runtime.model").setLevel(logging.ERROR)  # of what it warns, the front tells the person
    metrics = Metrics()
    intake = Intake(config, config.model.id, metrics)
    screen = Screen(sys.stdout, sys.stderr)
    if question is None:
        talk = Chatting(intake, screen, Keyboard(), manner).talk
    else:
        talk = partial(ask_once, intake, screen, manner, question)
    front = TerminalFront(intake, screen, talk)
    await Daemon(config, named.path, intake, metrics, front, signals=(SIGTERM,)).run()
    return front.status
