"""When a request's result is fixed, and the name of that result: everything in the request that decides it."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

from attrs import evolve, fields, has

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.core.request import Request

NOT_ASKED = frozenset({"id", "key", "deadline", "background", "passing"})
"""Fields of a request that say who asks, how long they wait and who goes first, not what. Any other field is part of
the name."""


def is_fixed(request: Request, *, seed_given: bool) -> bool:
    """Whether the same request always has the same answer. `seed_given`: the seed is the client's, not drawn here."""
    return request.sampling.temperature <= 0 or seed_given


def answer_key(fingerprint: bytes, request: Request) -> bytes:
    """32 bytes that two requests share only if their answers are the same. `fingerprint` is the model's.

    Without a temperature nothing is drawn, so the seed is no part of it then, but for an election: there others draw.
    """
    if request.sampling.temperature <= 0 and request.conclave is None:
        request = evolve(request, sampling=evolve(request.sampling, seed=None))
    hashed = hashlib.blake2b(digest_size=32, person=b"reame.answer", key=hashlib.sha256(fingerprint).digest())
    for part in _parts(request):
        hashed.update(part)
    return hashed.digest()


def _parts(value: Any) -> Iterator[bytes]:
    """The value in bytes of which no other value is made: each with its kind, and its length where that varies."""
    if has(type(value)):
        asked = [field.name for field in fields(type(value)) if field.name not in NOT_ASKED]
        yield struct.pack("<cQ", b"a", len(asked))
        for name in asked:
            yield from _parts(name)
            yield from _parts(getattr(value, name))
    elif isinstance(value, tuple):
        yield struct.pack("<cQ", b"t", len(value))
        for item in value:
            yield from _parts(item)
    elif value is None:
        yield b"n"
    elif isinstance(value, float):
        yield struct.pack("<cd", b"f", value)
    elif isinstance(value, (bool, int, str, bytes)):
        text = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
        yield struct.pack("<cQ", type(value).__name__[0].encode() if not isinstance(value, bytes) else b"y", len(text))
        yield text
    else:
        raise TypeError(f"no canonical form for {type(value).__name__}")
