"""`reame cache forget`: what is kept of one API key goes, on disk and in the daemons that run."""

from __future__ import annotations

import sys

from attrs import asdict

from reame.commands.cache_work import Gone, Kept, closing, print_json
from reame.config_keys import check_name
from reame.errors import ConfigError, ReameError
from reame.memory import archive_upkeep, inbox, upkeep
from reame.memory.archive_files import archive_tag

PATIENCE_S = 60.0
"""Seconds that a running daemon has to forget a key: it looks once a second, and between two of its steps."""


def forget(here: Kept, key: str, *, as_json: bool) -> int:
    """Of one API key, here and in the daemons that run on this directory; what these write before they hear of it is
    deleted once they have. ConfigError when what is kept belongs to no key."""
    if here.shared:
        raise ConfigError('with memory.share = "all" nothing belongs to one key: reame cache clear deletes everything')
    check_name(key)
    with closing(here):
        gone = _forget(here, key)
        orders = inbox.order(here.directory, key)
        deaf = inbox.wait_done(orders, patience_s=PATIENCE_S)
        if orders:
            gone = gone.plus(_forget(here, key))
    _say_forgotten(gone, len(orders) - len(deaf), as_json=as_json)
    if deaf:
        processes = ", ".join(map(inbox.pid_of, deaf))
        raise ReameError(f"a running daemon does not answer (process {processes}): what it has in RAM ends with it")
    if gone.is_nothing and key not in here.names.values():
        known = ", ".join(sorted(filter(None, here.names.values())))
        keys = f"the keys here are called {known}" if known else "no keys are asked for here (--key '' names nobody's)"
        note = f"nothing was kept of a key of that name, and {keys}: --key wants a name, not the key itself"
        print(f"reame: {note}", file=sys.stderr)
    return 0


def _forget(here: Kept, key: str) -> Gone:
    """On disk."""
    removed = upkeep.forget(here.blocks, key)
    archived = archive_upkeep.drop(here.archive, archive_tag(key, here.salt))
    return Gone(removed.blocks, removed.bytes, here.answers.forget(key), archived.generations)


def _say_forgotten(gone: Gone, daemons: int, *, as_json: bool) -> None:
    if as_json:
        print_json({"deleted": asdict(gone), "daemons": daemons})
        return
    print(f"deleted {gone}")
    if daemons:
        print(f"{daemons} running daemon{'' if daemons == 1 else 's'} forgot it too, live cells included")
