"""`reame doctor`: what this machine is and can do, what is wrong, and which settings follow."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import cyclopts

Flag = cyclopts.Parameter(negative="", show_default=False)


async def doctor(
    model: Annotated[str, cyclopts.Parameter(show_default=False)] = "",
    /,
    *,
    config: Annotated[Path | None, cyclopts.Parameter(name=["--config", "-c"])] = None,
    sets: Annotated[tuple[str, ...], cyclopts.Parameter(name="--set", negative="", show_default=False)] = (),
    quick: Annotated[bool, Flag] = False,
    seconds: Annotated[float, cyclopts.Parameter(validator=cyclopts.validators.Number(gte=5, lte=600))] = 60,
    as_json: Annotated[bool, Flag, cyclopts.Parameter(name="--json")] = False,
    write: Annotated[
        list[Path] | None, cyclopts.Parameter(negative="", consume_multiple=True, show_default=False)
    ] = None,
    yes: Annotated[bool, Flag, cyclopts.Parameter(name=["--yes", "-y"])] = False,
) -> int:
    """Measure this machine with a model, for about a minute, and say what it can do, what is wrong and what to set.

    Everything runs in child processes: what crashes there is a sentence here. Best when nothing else runs. Exit status
    1 when something cannot work.

    Parameters
    ----------
    model
        A name from `reame list` or a path; else the model of the configuration.
    config
        The TOML file. Without it: $REAME_CONFIG, etc/reame.toml, /etc/reame/reame.toml, or the defaults.
    sets
        A single setting, such as --set engine.context=4096. May be repeated; wins over the file.
    quick
        Measure nothing: only what the kernel says.
    seconds
        How long to measure at most; a large model needs the minute.
    as_json
        Print one JSON object.
    write
        Put the advice into this file (else the one that was read, else etc/reame.toml) after showing the difference,
        and keep the measured profile, from which the daemon starts.
    yes
        Do not ask before writing.
    """
    from reame.commands.doctor_work import Wanted, examine

    return await examine(
        Wanted(
            model=model,
            config=config,
            sets=sets,
            quick=quick,
            seconds=seconds,
            as_json=as_json,
            write=write is not None,
            file=only(write or []),
            yes=yes,
        )
    )


def only(files: list[Path]) -> Path | None:
    """The one file after --write, or None. Raises ConfigError for more."""
    from reame.errors import ConfigError

    if len(files) > 1:
        raise ConfigError("--write takes one file; the model's name comes before the options")
    return files[0] if files else None


def register(app: cyclopts.App) -> None:
    app.command(doctor)
