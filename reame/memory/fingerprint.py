"""What a block's bytes depend on, as 16 bytes: the model's content and every setting that changes the cells."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from reame.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

CHUNK = 1 << 20
MOST_DIGESTS = 64
"""Remembered digests; the oldest go."""
SETTLED_S = 2.0
"""A file changed so shortly ago might be changed once more within the same tick of its clock."""
_DIGEST = re.compile(rb"[0-9a-f]{64}")


def fingerprint(digest: bytes, facts: Mapping[str, str]) -> bytes:
    """16 bytes: the model's digest and all `facts`, in no order."""
    hashed = hashlib.blake2b(digest_size=16, person=b"reame.finger")
    for part in (digest, *(text.encode() for fact in sorted(facts.items()) for text in fact)):
        hashed.update(len(part).to_bytes(8, "little") + part)
    return hashed.digest()


def model_digest(files: Sequence[Path], cache_dir: Path, go_on: Callable[[], bool] = lambda: True) -> bytes:
    """32 bytes of BLAKE2b over the contents of all parts of a model. Blocks for a second a gigabyte the first time.

    Remembered in `cache_dir` by device, inode, size, mtime and ctime of each part: another file under the same name,
    size and mtime has another ctime. Raises ModelError when the model cannot be read, or soon after `go_on` says no.
    """
    try:
        before = identity(files)
        known = cache_dir / "digests" / before
        with suppress(OSError):
            if _DIGEST.fullmatch(text := known.read_bytes()):
                return bytes.fromhex(text.decode())
        digest = _digest(files, go_on)
        settled = max(os.stat(file).st_ctime for file in files) < time.time() - SETTLED_S
        if settled and identity(files) == before:
            _remember(known, digest)
    except OSError as error:
        raise ModelError(f"the model cannot be read: {error}") from error
    return digest


def identity(files: Sequence[Path]) -> str:
    """Says whether these are still the same files with the same content, without reading them. OSError."""
    facts = [os.stat(file) for file in files]
    numbers = [(f.st_dev, f.st_ino, f.st_size, f.st_mtime_ns, f.st_ctime_ns) for f in facts]
    return hashlib.blake2b(repr(numbers).encode(), digest_size=16).hexdigest()


def _digest(files: Sequence[Path], go_on: Callable[[], bool]) -> bytes:
    hashed = hashlib.blake2b(digest_size=32)
    for path in files:
        with path.open("rb", buffering=0) as file:
            hashed.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
            while chunk := file.read(CHUNK):
                hashed.update(chunk)
                if not go_on():
                    raise ModelError("reading the model was given up")
    return hashed.digest()


def _remember(known: Path, digest: bytes) -> None:
    """For the next start, if the cache can be written."""
    part = known.with_name(f"{secrets.token_hex(8)}.part")
    with suppress(OSError):
        known.parent.mkdir(0o700, parents=True, exist_ok=True)
        part.write_text(digest.hex())
        os.replace(part, known)
        others = sorted(known.parent.iterdir(), key=lambda file: file.stat().st_mtime)
        for file in others[:-MOST_DIGESTS]:
            file.unlink(missing_ok=True)
