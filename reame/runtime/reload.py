"""SIGHUP: the keys and the log level are read again, while everything runs on; all else needs a restart, and is named.

Either all of a reload happens or nothing: a mistake in a file leaves what is in force as it is, and is logged.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from attrs import asdict, frozen

from reame.config_keys import load_api_keys
from reame.errors import ConfigError
from reame.runtime.logs import set_level

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reame.config import Config
    from reame.config_keys import ApiKey

LIVE = frozenset({"log.level"})
"""Keys of the config that a reload brings into force; the file that server.api_keys_file names is read again too."""

log = logging.getLogger(__name__)


@frozen
class Reload:
    """`running` is the config in force, `read` reads the one on disk, `take_keys` brings keys into force and returns
    those before. Calling it blocks for as long as files take; any thread, one call at a time.
    """

    running: Config
    read: Callable[[], Config]
    take_keys: Callable[[Sequence[ApiKey]], Sequence[str]]

    def __call__(self) -> bool:
        """Whether it happened; what did, or why not, is in the log."""
        file = self.running.server.api_keys_file
        try:
            config = self.read()
            keys = load_api_keys(file) if file else ()
        except ConfigError as error:
            for line in str(error).splitlines():
                log.error("not reloaded: %s", line)
            return False
        before = set(self.take_keys(keys))
        set_level(config.log.level)
        names = {key.name for key in keys}
        log.info("reloaded: %s; log level %s", _keys_said(before, names), config.log.level)
        if changed := needing_restart(self.running, config):
            log.warning("changed, and in force only after a restart: %s", ", ".join(changed))
        return True


def needing_restart(running: Config, new: Config) -> list[str]:
    """Dotted keys that differ between the two configs and that no reload brings into force."""
    old, now = asdict(running), asdict(new)
    dotted = {f"{table}.{key}": (value, now[table][key]) for table, keys in old.items() for key, value in keys.items()}
    return [key for key, (before, after) in dotted.items() if before != after and key not in LIVE]


def has_terminal() -> bool:
    """Whether this process hangs on a terminal that is there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _keys_said(before: set[str], now: set[str]) -> str:
    if not before and not now:
        return "no API keys are asked for"
    parts = [f"{len(now)} API {'key' if len(now) == 1 else 'keys'}"]
    parts += [f"new: {', '.join(sorted(now - before))}"] if now - before else []
    parts += [f"gone: {', '.join(sorted(before - now))}"] if before - now else []
    return ", ".join(parts)
