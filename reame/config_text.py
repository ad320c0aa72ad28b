"""A Config as TOML text: the commented file of defaults, and the effective values with their origins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tomli_w
from attrs import fields

from reame.config import Config

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.config_load import Loaded

_HEAD = """\
# Reame's configuration. Every key is here with its default and the reason for it; a key that is left out keeps its
# default. Reame reads the file named by --config, else by $REAME_CONFIG, else etc/reame.toml under the working
# directory, else /etc/reame/reame.toml. `reame config check` reports every mistake, `reame config show` what holds.
"""


def default_text() -> str:
    """The file that `reame config init` writes and that ships as etc/reame.toml."""
    config = Config()
    blocks = [_HEAD]
    for table, values in _tables(config):
        lines = [f"# {values.__doc__}\n[{table}]\n"]
        lines += [f"# {key.metadata['why']}\n{_assignment(key.name, values)}\n" for key in fields(type(values))]
        blocks.append("".join(lines))
    return "\n".join(blocks)


def effective_text(loaded: Loaded) -> str:
    """All values in force, as TOML that reads back to the same config. A comment marks what is not the default."""
    blocks = [f"# Read: {loaded.source}. A comment tells where a value comes from that is not the built-in default.\n"]
    for table, values in _tables(loaded.config):
        defaults = type(values)()
        lines = [f"[{table}]\n"]
        for key in fields(type(values)):
            changed = getattr(values, key.name) != getattr(defaults, key.name)
            origin = f"  # {loaded.origins[f'{table}.{key.name}']}" if changed else ""
            lines.append(f"{_assignment(key.name, values)}{origin}\n")
        blocks.append("".join(lines))
    return "\n".join(blocks)


def _tables(config: Config) -> Iterator[tuple[str, Any]]:
    for table in fields(Config):
        yield table.name, getattr(config, table.name)


def _assignment(name: str, values: Any) -> str:
    value = getattr(values, name)
    return tomli_w.dumps({name: list(value) if isinstance(value, tuple) else value}).rstrip("\n")
