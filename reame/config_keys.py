"""The API keys that clients present, read from their own file so that no other file, log or message holds one."""

from __future__ import annotations

import logging
import os
import re
import stat
from hashlib import sha256
from pathlib import Path

from attrs import field, frozen

from reame.config_check import ConfigMistakes
from reame.config_rules import printable
from reame.config_service import service_hint
from reame.errors import ConfigError

MAX_BYTES = 1 << 20

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_A_NAME = "name (1 to 64 letters, digits, '.', '_', '-')"
_SECRET = re.compile(r"[!-~]{1,512}")  # what an Authorization header can carry
_log = logging.getLogger(__name__)


@frozen
class ApiKey:
    """One client's key. The name may be logged and shown; the secret is compared and nothing else."""

    name: str
    secret: str = field(repr=False)


def known_names(path: str) -> tuple[str, ...]:
    """Names of the keys in the file, as far as they can be read here: the copy that a service has is gone while it does
    not run. None for no file."""
    try:
        return tuple(key.name for key in load_api_keys(path)) if path else ()
    except ConfigError:
        return ()


def load_api_keys(path: str | os.PathLike[str]) -> tuple[ApiKey, ...]:
    """The keys in the file at `path`, one a line: `name:key`, or the key alone, which is then named by its hash (the
    same name wherever the line stands).

    Empty lines and lines that start with # say nothing. Raises ConfigError when the file cannot be read or holds no
    key, or with all bad lines by number, since a line's text may be a secret. A file that other users of this
    machine can read or change is logged as a warning.
    """
    text = _read(Path(path))
    keys: list[ApiKey] = []
    mistakes: list[str] = []
    names: dict[str, int] = {}  # the line of each name, and of each secret: both are unique
    secrets: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (line := line.strip()) or line.startswith("#"):
            continue
        key = _parse(line)
        if mistake := _mistake(key, names, secrets):
            mistakes.append(f"line {number}: {mistake}")
        keys.append(key)
        names[key.name] = secrets[key.secret] = number
    if mistakes:
        raise ConfigMistakes(f"server.api_keys_file {printable(path)}", mistakes)
    if not keys:
        raise ConfigError(f"server.api_keys_file {printable(path)}: no key in it; write one `name:key` a line")
    return tuple(keys)


def check_name(name: str) -> None:
    """Whether a key may be called that; "" is nobody's. Raises ConfigError, without what may be a secret."""
    if name and not _NAME.fullmatch(name):
        raise ConfigError(f"--key is no {_A_NAME}; it wants the name of a key, not the key")


def _parse(line: str) -> ApiKey:
    name, colon, secret = line.partition(":")
    if colon:
        return ApiKey(name.strip(), secret.strip())
    return ApiKey(f"key-{sha256(line.encode()).hexdigest()[:8]}", line)


def _mistake(key: ApiKey, names: dict[str, int], secrets: dict[str, int]) -> str | None:
    if not _NAME.fullmatch(key.name):
        return f"the part before the colon is not a {_A_NAME}"
    if not key.secret:
        return "no key after the name"
    if not _SECRET.fullmatch(key.secret):
        return "a key is 1 to 512 printable ASCII characters without spaces"
    if key.secret in secrets:
        return f"the same key as in line {secrets[key.secret]}"
    if key.name in names:
        return f"the same name as in line {names[key.name]}"
    return None


def _read(path: Path) -> str:
    where = f"server.api_keys_file {printable(path)}"
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        hint = service_hint("put the keys into /etc/reame/api-keys, and name its copy here, /run/reame/api-keys")
        raise ConfigError(f"{where}: cannot be read: {reason.lower()}{hint}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{where}: larger than a file of keys can be, 1 MiB")
    if mode & (stat.S_IROTH | stat.S_IWOTH | stat.S_IWGRP):
        _log.warning("%s: other users of this machine can read or change it; run: chmod 600 %s", where, printable(path))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{where}: not a text file") from None
