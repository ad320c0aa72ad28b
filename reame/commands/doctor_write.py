"""`reame doctor --write`: the advice into the configuration file, the profile beside the daemon's other caches."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from reame.catalog import split_parts
from reame.config_load import LOCAL_FILE, parse_config
from reame.config_rules import printable
from reame.config_text import default_text
from reame.doctor.outlook import load_seconds
from reame.doctor.profile import Profile, decisive, identity, save
from reame.doctor.rewrite import difference, edited, values_of
from reame.errors import ConfigError
from reame.memory.fingerprint import model_digest

if TYPE_CHECKING:
    from reame.commands.doctor_work import Examined
    from reame.config import Config
    from reame.doctor.advice import Report


def target_file(wanted: Path | None, source: str) -> Path:
    """The file to write: the one named, else the one that was read, else etc/reame.toml."""
    read = Path(source)
    return wanted or (read if read.is_file() else LOCAL_FILE)


@frozen
class Change:
    """What a file holds (nothing: it is not there) and what it shall hold."""

    file: Path
    old: str
    new: str


def change_of(file: Path, report: Report, *, model: str) -> Change:
    """`model` as it was named, or empty. Raises ConfigError, also when the result would be no good configuration."""
    try:
        old = file.read_text("utf-8-sig") if file.exists() else ""
    except (OSError, ValueError) as error:
        raise _trouble(file, error) from None
    values = {**({"model.path": _lasting(model)} if model else {}), **values_of(report.settings)}
    new = edited(old or default_text(), values)
    parse_config(new, printable(file))
    return Change(file, old, new)


async def write_settings(change: Change, *, ask: bool) -> None:
    """Show what changes on standard error, ask, and write all of it or nothing. Raises ConfigError."""
    name = printable(change.file)
    if change.old == change.new:
        print(f"{name}: right as it is", file=sys.stderr)
        return
    print(difference(change.old or default_text(), change.new, name), end="", file=sys.stderr)
    if ask and not await _confirmed(f"write this to {name}? [y/N] "):
        print("the file stays as it is", file=sys.stderr)
        return
    try:
        _replace(change.file, change.new)
    except OSError as error:
        raise _trouble(change.file, error) from None
    print(f"wrote {name}", file=sys.stderr)


def _trouble(file: Path, error: OSError | ValueError) -> ConfigError:
    reason = (error.strerror if isinstance(error, OSError) else None) or "not a text file"
    return ConfigError(f"{printable(file)}: {reason.lower()}")


async def keep_profile(found: Examined, config: Config, cache: Path) -> None:
    """Of a model that was measured well enough; a machine in bad company leaves none."""
    measured, path = found.measured, found.path
    if measured is None or measured.model is None or path is None or measured.contention.is_noise:
        return
    model = measured.model
    parts = split_parts(path)
    digest = await trio.to_thread.run_sync(lambda: model_digest(parts, cache))
    options = {**decisive(found.options), "threads": model.threads, "prefill_threads": model.prefill_threads}
    profile = Profile(
        identity=identity(digest, path.stem),
        threads=model.threads,
        prefill_threads=model.prefill_threads,
        step_seconds=model.steps,
        load_seconds=load_seconds(measured) or 0.0,
        restore_seconds=model.restore or 0.0,
        options=options,
    )
    try:
        file = save(cache, profile)
    except OSError as error:
        raise ConfigError(f"the profile cannot be kept in {cache}: {error.strerror}; set REAME_CACHE") from None
    print(f"kept the profile in {file}", file=sys.stderr)


def _lasting(model: str) -> str:
    """A name, or a path that does not depend on the working directory."""
    return os.path.abspath(os.path.expanduser(model)) if os.path.exists(os.path.expanduser(model)) else model


def _replace(file: Path, text: str) -> None:
    """A link stays a link; owner and mode stay as they are where that may be set."""
    target = file.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if target.exists():
            part.chmod(target.stat().st_mode & 0o777)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)


async def _confirmed(question: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise ConfigError("nobody can be asked here: say --yes to write")
    print(question, end="", file=sys.stderr, flush=True)
    answer = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return answer.strip().casefold() in ("y", "yes")
