"""`reame warm FILE...`: prompts computed ahead of time by a running daemon. Here are the command and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from reame.commands.parameters import File, Sets

Switch = Annotated[bool, Parameter(negative="", show_default=False)]


async def warm(
    file: Path,
    /,
    *files: Path,
    system: Switch = False,
    messages: Switch = False,
    pin: Switch = False,
    ttl: Annotated[float | None, Parameter(show_default=False)] = None,
    url: Annotated[str, Parameter(show_default=False)] = "",
    key_file: Annotated[Path | None, Parameter(show_default=False)] = None,
    config: File = None,
    sets: Sets = (),
) -> int:
    """Have a running daemon compute prompts ahead of time. Who asks later waits only for what is new.

    It works on them while nobody else wants anything; what is computed already costs nothing. The files are warmed one
    after the other. Exit status 1 when one of them could not be.

        reame warm --system contract-rules.txt
        reame warm --pin chapters/*.txt

    Parameters
    ----------
    file
        Its text is what later prompts begin with, exactly as it is.
    files
        More of them.
    system
        Each file is the system message of chats.
    messages
        Each file is JSON: a list of messages, or a chat request with one.
    pin
        Keep it on disk: when memory.disk_mb is full, what is not pinned goes first.
    ttl
        Seconds that a pin holds; without it, ten years.
    url
        Where the daemon listens (else server.host and server.port).
    key_file
        A file with the API key, alone or as `name:key`; of several lines the first.
    """
    from reame.commands.warm_work import Daemon, read_files, warm_all
    from reame.config_load import load_config

    bodies = read_files([file, *files], is_system=system, is_messages=messages, pin=pin, ttl=ttl)
    daemon = Daemon.at(url, key_file) if url else Daemon.of(load_config(config, sets=sets).config.server, key_file)
    return await warm_all(daemon, bodies)


def register(app: App) -> None:
    app.command(warm, usage="Usage: reame warm FILE... [OPTIONS]")
