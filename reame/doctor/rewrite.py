"""The advice put into a configuration file, where everything else, comments too, stays as it is. Pure."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Table

from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reame.doctor.advice import Setting

Value = int | str | bool


def edited(text: str, values: Mapping[str, Value]) -> str:
    """`text` with these dotted keys set. Raises ConfigError when the text is not TOML, or a table is no table."""
    try:
        document = tomlkit.parse(text)
        for key, value in values.items():
            table, _, name = key.partition(".")
            if table not in document:
                document[table] = tomlkit.table()
            _put(document[table], name, value)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError) as error:
        raise ConfigError(f"the advice cannot be put into the file: {error}") from None


def _put(table: Any, name: str, value: Value) -> None:
    """A new key goes behind the table's last one, before the empty lines and remarks that lead to the next table."""
    lines = table.value.body if isinstance(table, Table) and name not in table else []
    tail = []
    while lines and lines[-1][0] is None:
        tail.append(lines.pop())
    table[name] = value
    lines.extend(reversed(tail))


def values_of(settings: Iterable[Setting]) -> dict[str, Value]:
    return {setting.key: setting.value for setting in settings}


def difference(old: str, new: str, name: str) -> str:
    """A unified diff; empty when they are the same."""
    lines = difflib.unified_diff(
        old.splitlines(keepends=True), new.splitlines(keepends=True), f"{name} (now)", f"{name} (advised)", n=1
    )
    return "".join(lines)
