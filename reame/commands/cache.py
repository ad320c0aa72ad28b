"""`reame cache stats | ls | verify | prune | clear | forget`: what the memory has on disk, with or without a daemon."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from reame.commands.parameters import AsJson, File, Key, Sets
from reame.config_load import load_config

if TYPE_CHECKING:
    from reame.commands.cache_work import Kept

Most = Annotated[int, Parameter(help="Lines at most; 0 = all.")]


def register(app: App) -> None:
    """Add `cache` and its commands to the command line."""
    cache = App(name="cache", help="Look after what is kept on disk: blocks of prefixes, old answers, archived texts.")
    for command in (stats, ls, verify, prune, clear, forget):
        cache.command(command)
    app.command(cache)


def stats(*, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Show how much is kept, of how many models and keys, and how much may be. Reads the whole directory.

    `reame archive stats` shows the archive by tokenizer and key.
    """
    from reame.commands import cache_show

    cache_show.show_stats(_kept(config, sets), as_json=as_json)
    return 0


def ls(*, config: File = None, sets: Sets = (), most: Most = 50, as_json: AsJson = False) -> int:
    """List the blocks, the last used first. With --json all of them, and the size and age as numbers."""
    from reame.commands import cache_show

    cache_show.show_entries(_kept(config, sets), most=most, as_json=as_json)
    return 0


def verify(*, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Read all blocks and old answers and delete what is damaged. Exit status 1 when something was."""
    from reame.commands import cache_work

    return cache_work.verify(_kept(config, sets), as_json=as_json)


def prune(*, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Delete the least recently used until both budgets are kept, and what killed writers left."""
    from reame.commands import cache_work

    return cache_work.prune(_kept(config, sets), as_json=as_json)


def clear(*, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Delete everything: blocks, pinned ones too, old answers and archived texts.

    A daemon that runs goes on and keeps new things. Files and results of /v1/files and /v1/batches are no part of this:
    they stay until their key deletes them, or batch.keep_days is over.
    """
    from reame.commands import cache_work

    return cache_work.clear(_kept(config, sets), as_json=as_json)


def forget(*, key: Key, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Forget one API key: its blocks, pins, old answers and archived texts; in running daemons its live cells too.

    What its requests that run at this moment compute is not kept. A daemon with memory.enabled = false keeps nothing
    here and is not told: its live cells go with its restart.
    """
    from reame.commands import cache_forget

    return cache_forget.forget(_kept(config, sets), key, as_json=as_json)


def _kept(path: Path | None, sets: tuple[str, ...]) -> Kept:
    from reame.commands.cache_work import kept

    return kept(load_config(path, sets=sets).config)
