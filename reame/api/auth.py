"""Who is calling: bearer keys with names. Names go into logs and are the namespaces of memory; keys stay in here."""

from __future__ import annotations

import re
from hashlib import sha256
from hmac import compare_digest
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

from reame.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_SECRET = re.compile(r"[!-~]{1,512}")


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()


@frozen
class ApiKey:
    """A key by its name and the SHA-256 of its secret."""

    name: str
    digest: bytes = field(repr=False)

    @classmethod
    def of(cls, secret: str, name: str = "") -> ApiKey:
        """Without a name, one from the secret's hash: the same wherever the key stands in the file."""
        digest = _digest(secret)
        return cls(name or f"key-{digest.hex()[:8]}", digest)


def read_keys(path: str) -> tuple[ApiKey, ...]:
    """The keys of a file, one a line: `name:key` or the key alone; empty lines and `#` comments between them.

    Raises ConfigError, which names the line and never the key.
    """
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"server.api_keys_file: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"server.api_keys_file: {path} is not a text file") from None
    keys: list[ApiKey] = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if line and not line.startswith("#"):
            keys.append(_read_key(line, keys, f"server.api_keys_file: line {number} of {path}"))
    if not keys:
        raise ConfigError(f"server.api_keys_file: {path} has no keys: write one a line, `name:key`")
    return tuple(keys)


def _read_key(line: str, before: Sequence[ApiKey], where: str) -> ApiKey:
    named = ":" in line
    name, _, secret = line.partition(":") if named else ("", "", line)
    if named and not _NAME.fullmatch(name.strip()):
        raise ConfigError(f"{where}: a name is 1 to 64 letters, digits, dots, dashes or underscores")
    if not _SECRET.fullmatch(secret.strip()):
        raise ConfigError(f"{where}: a key is 1 to 512 printable ASCII characters without spaces")
    key = ApiKey.of(secret.strip(), name.strip())
    if any(key.name == other.name or key.digest == other.digest for other in before):
        raise ConfigError(f"{where}: this name or key stands there twice")
    return key


def authenticate(header: str | None, keys: Sequence[ApiKey]) -> str:
    """The name of the caller's key, "" when no keys are set. Raises RequestError (401).

    Takes the same time for every wrong key: digests are compared, all of them, without stopping at a hit.
    """
    if not keys:
        return ""
    scheme, _, secret = (header or "").partition(" ")
    digest = _digest(secret.strip())
    hits = [key.name for key in keys if compare_digest(key.digest, digest)]
    if scheme.lower() != "bearer" or not hits:
        what = "This API key is not known." if header else "An API key is needed."
        raise RequestError(f"{what} Send it as `Authorization: Bearer KEY`.", status=401)
    return hits[0]
