"""Who is calling: the name of the bearer key that a request shows."""

from __future__ import annotations

from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from werkzeug.datastructures import Headers

    from reame.config_keys import ApiKey


def bearer(headers: Headers) -> str | None:
    """The Authorization header; Anthropic's clients send the key as `x-api-key` instead."""
    other = headers.get("x-api-key")
    return headers.get("Authorization") or (None if other is None else f"Bearer {other}")


class Keyring:
    """The keys that open this server; none at all let everyone in. Holds hashes of the secrets only."""

    def __init__(self, keys: Sequence[ApiKey]) -> None:
        self._names = [(key.name, _digest(key.secret)) for key in keys]

    def replace(self, keys: Sequence[ApiKey]) -> list[str]:
        """From the next request on these keys count. Returns the names of those before. Any thread."""
        before, self._names = self._names, [(key.name, _digest(key.secret)) for key in keys]
        return [name for name, _ in before]

    def __len__(self) -> int:
        return len(self._names)

    @property
    def is_open(self) -> bool:
        """Everybody is let in."""
        return not self._names

    def name_of(self, header: str | None) -> str:
        """The name of the key in an Authorization header, "" when there are no keys. Raises RequestError (401).

        Takes the same time for every wrong key: hashes are compared, all of them, without stopping at a hit.
        """
        if not self._names:
            return ""
        scheme, _, secret = (header or "").partition(" ")
        digest = _digest(secret.strip())
        hits = [name for name, known in self._names if compare_digest(known, digest)]
        if scheme.lower() != "bearer" or not hits:
            what = "This API key is not known." if header else "An API key is needed."
            raise RequestError(f"{what} Send it as `Authorization: Bearer KEY`.", status=401)
        return hits[0]


def _digest(secret: str) -> bytes:
    return sha256(secret.encode()).digest()
