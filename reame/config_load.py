"""Finds the config file, reads it and checks it: any file gives a Config or one ConfigError with every mistake.

The file is the first of `--config`, `$REAME_CONFIG`, `etc/reame.toml` under the working directory and
`/etc/reame/reame.toml`; without any of them the defaults hold. `--set table.key=value` goes over the file.
"""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from reame.config_check import check
from reame.config_rules import printable
from reame.config_service import service_hint
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reame.config import Config

LOCAL_FILE = Path("etc/reame.toml")  # under the working directory
SYSTEM_FILE = Path("/etc/reame/reame.toml")
MAX_BYTES = 1 << 20  # a config file is a few thousand bytes; this keeps a wrong path from filling the memory

_TOML_PLACE = re.compile(
    r"(?P<what>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL
)


@frozen
class Loaded:
    """A checked config, the file it comes from, and where each dotted key that was given comes from."""

    config: Config
    source: str
    origins: Mapping[str, str]


def load_config(
    explicit: str | os.PathLike[str] | None = None,
    *,
    sets: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> Loaded:
    """Read the config as the command line asks for it. `sets` are the texts of `--set`, later ones win.

    Raises ConfigError: a file that was named but cannot be read, TOML that is not TOML (line and column), or all
    mistakes of the file and of `sets` together.
    """
    path, text = _read_first(explicit, environ)
    source = "built-in defaults" if path is None else printable(path)
    document = parse_toml(text, source)
    values = dict(map(parse_set, sets))
    for key, value in values.items():
        _put(document, key, value)
    named = source if not sets else "--set" if path is None else f"{source} and --set"
    config = check(document, named)
    return Loaded(config=config, source=source, origins=_origins(document, source, values))


def parse_config(text: str, source: str = "config") -> Config:
    """A Config from the text of a TOML document; `source` is how its mistakes name it. Raises ConfigError."""
    return check(parse_toml(text, source), source)


def override(config: Config, values: Mapping[str, object], source: str = "--set") -> Config:
    """`config` with other values under dotted keys, such as {"server.port": 9000}. Raises ConfigError."""
    document = asdict(config)
    for key, value in values.items():
        _put(document, key, value)
    return check(document, source)


def parse_set(text: str) -> tuple[str, object]:
    """`table.key=value` -> its dotted key and value. Raises ConfigError.

    The value is TOML. What cannot be TOML is a plain string, because shells eat quotes: log.level="debug" arrives
    here as log.level=debug. Whether the key may hold a string is for `override` to say.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise ConfigError(f"--set {printable(text)}: expected table.key=value, such as server.port=9000")
    try:
        document = tomllib.loads(f"value = {value}")
    except (ValueError, RecursionError):
        if value.startswith(("'", '"', "[", "{")):
            raise ConfigError(f"--set {printable(key)}: the value is not valid TOML") from None
        return key, value
    return key, document["value"] if len(document) == 1 else value


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """tomllib.loads whose every fault is a ConfigError with line and column."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: {_placed(str(error), text)}") from None
    except (ValueError, RecursionError):
        raise ConfigError(f"{source}: not usable TOML: a number with too many digits, or too deeply nested") from None


def _placed(message: str, text: str) -> str:
    match = _TOML_PLACE.fullmatch(message)
    if match is None:
        return f"not valid TOML: {message}"
    lines = text.split("\n")
    line, column = match["line"] or len(lines), match["column"] or len(lines[-1]) + 1
    what = match["what"]
    return f"line {line}, column {column}: not valid TOML: {what[:1].lower()}{what[1:]}"


def _read_first(explicit: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> tuple[Path | None, str]:
    """The file that counts and its text; (None, "") when there is none and none was named."""
    if explicit is not None:
        return Path(explicit), _read(Path(explicit), "named by --config")
    if environ.get("REAME_CONFIG"):
        path = Path(environ["REAME_CONFIG"])
        return path, _read(path, "named by $REAME_CONFIG")
    for path in (LOCAL_FILE, SYSTEM_FILE):
        if os.path.lexists(path):
            return path, _read(path, "found there; --config names another")
    return None, ""


def _read(path: Path, why: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        hint = service_hint("the file must be readable for it; no key or other secret is in it")
        raise ConfigError(f"{printable(path)}: cannot be read: {reason.lower()} ({why}){hint}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{printable(path)}: larger than a config file can be, 1 MiB ({why})")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{printable(path)}: line {line}: not UTF-8 text") from None


def _put(document: dict[str, Any], key: str, value: object) -> None:
    *tables, last = key.split(".")
    for name in tables:
        inner = document.get(name)
        if not isinstance(inner, dict):
            inner = document[name] = {}
        document = inner
    document[last] = value


def _origins(document: Mapping[str, Mapping[str, Any]], source: str, values: Mapping[str, object]) -> dict[str, str]:
    dotted = [(table, f"{table}.{key}") for table, keys in document.items() for key in keys]
    return {key: "--set" if table in values or key in values else source for table, key in dotted}
