"""What the doctor measured, kept for the daemon's next start: one small JSON file for each CPU, model and build.

`load` gives a profile only to the very same three; one of the same model on another CPU, or the like, is named in a
line of the log and left alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import math
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from attrs import asdict, frozen

from reame.host.features import cpu_features, llama_library
from reame.host.place import place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from reame.engine.llama import LlamaOptions

log = logging.getLogger(__name__)

FOLDER = "doctor"
_FORMAT = 1
_MOST = 64
"""Profiles that are kept; the oldest go."""
_MOST_BYTES = 1 << 20
_DECISIVE = ("threads", "prefill_threads", "kv_type", "flash_attention", "extra_buffers", "own_kernels", "exact")
"""Options that step times depend on."""


@frozen(kw_only=True)
class Identity:
    """What a profile is valid for. `model` is the digest of its content in hexadecimal, `name` only for people."""

    cpu: str
    model: str
    build: str
    name: str

    @property
    def key(self) -> str:
        return hashlib.blake2b("\0".join((self.cpu, self.model, self.build)).encode(), digest_size=16).hexdigest()


@frozen(kw_only=True)
class Profile:
    """Seconds: `step_seconds` by number of rows, `restore_seconds` and `load_seconds` (disk and all) a token.

    `options`: those of the engine that they hold for.
    """

    identity: Identity
    threads: int
    prefill_threads: int
    step_seconds: Mapping[int, float]
    load_seconds: float
    restore_seconds: float
    options: Mapping[str, int | str | bool]

    def holds_for(self, options: LlamaOptions) -> bool:
        """Whether steps with these options take the times that were measured."""
        return dict(self.options) == decisive(options)


def decisive(options: LlamaOptions) -> dict[str, int | str | bool]:
    return {name: getattr(options, name) for name in _DECISIVE}


def identity(model_digest: bytes, name: str) -> Identity:
    """Of this machine and the llama.cpp that is installed."""
    library = llama_library()
    size = library.stat().st_size if library else 0
    features = hashlib.blake2b(" ".join(sorted(cpu_features())).encode(), digest_size=6).hexdigest()
    return Identity(
        cpu=f"{place().cpu} {features}",
        model=model_digest.hex(),
        build=f"{importlib.metadata.version('llama-cpp-python')} {size}",
        name=name,
    )


def exist(cache_dir: Path) -> bool:
    """Whether there is any profile, so that it is worth knowing the model's digest."""
    return any(_files(cache_dir))


def load(cache_dir: Path, wanted: Identity) -> Profile | None:
    """The profile that was made for exactly this, or None; says in one line why another one is not used."""
    stale = ""
    for file in _files(cache_dir):
        found = _read(file)
        if found is None:
            stale = stale or f"{file.name} cannot be read"
        elif found.identity.key == wanted.key:
            return found
        elif found.identity.model == wanted.model or found.identity.name == wanted.name:
            stale = f"that of {wanted.name} was made with another {_difference(found.identity, wanted)}"
    if stale:
        log.warning("the doctor's profile is not used: %s; run `reame doctor --write` again", stale)
    return None


def save(cache_dir: Path, profile: Profile) -> Path:
    """Whole or not at all. Raises OSError."""
    folder = cache_dir / FOLDER
    folder.mkdir(0o700, parents=True, exist_ok=True)
    file = folder / f"{profile.identity.key}.json"
    part = folder / f"{secrets.token_hex(8)}.part"
    part.write_text(json.dumps({"format": _FORMAT, **asdict(profile)}, indent=1))
    os.replace(part, file)
    for old in list(_files(cache_dir))[_MOST:]:
        old.unlink(missing_ok=True)
    return file


def _files(cache_dir: Path) -> Iterator[Path]:
    """The newest first."""
    with suppress(OSError):
        yield from sorted((cache_dir / FOLDER).glob("*.json"), key=lambda file: file.stat().st_mtime, reverse=True)


def _read(file: Path) -> Profile | None:
    """None for anything that is not exactly a profile: it is only ever a better start."""
    try:
        with file.open("rb") as opened:
            values = json.loads(opened.read(_MOST_BYTES))
        if values.pop("format") != _FORMAT:
            return None
        steps = {int(rows): float(seconds) for rows, seconds in values["step_seconds"].items()}
        profile = Profile(**{**values, "identity": Identity(**values["identity"]), "step_seconds": steps})
        times = (*steps.values(), float(profile.load_seconds), float(profile.restore_seconds))
        counts = (*steps, profile.threads, profile.prefill_threads)
        good = all(math.isfinite(t) and t >= 0 for t in times) and all(type(c) is int and c > 0 for c in counts)
        return profile if good and all(steps.values()) and isinstance(profile.identity.key, str) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _difference(found: Identity, wanted: Identity) -> str:
    names = {"cpu": "CPU", "model": "content of the file", "build": "build of llama.cpp"}
    return " and ".join(text for name, text in names.items() if getattr(found, name) != getattr(wanted, name))
