"""From the config to the memory on disk: its directory, the model's fingerprint, the salt of its names."""

from __future__ import annotations

import importlib.metadata
import logging
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from reame.catalog import split_parts
from reame.engine.gguf import read_shape
from reame.host.new_file import put
from reame.memory import answers, block_directory
from reame.memory.answers import AnswerStore
from reame.memory.block_store import BlockStore
from reame.memory.fingerprint import fingerprint, model_digest
from reame.runtime.memory import Memory
from reame.runtime.model import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.config import Config
    from reame.engine.llama import LlamaOptions

log = logging.getLogger(__name__)

FORGETFUL = b"\0" * 16
"""The fingerprint of a memory that keeps nothing."""


def memory_dir(config: Config) -> Path:
    return Path(config.memory.path) if config.memory.path else cache_dir() / "memory"


def open_memory(
    config: Config, path: Path, options: LlamaOptions, *, go_on: Callable[[], bool] = lambda: True
) -> Memory:
    """Reads the whole model the first time (its digest is kept), so call it in a thread. ModelError soon after `go_on`
    says no.

    A directory that cannot be used is a warning: serving goes on without it.
    """
    if not config.memory.enabled:
        return forgetful()
    directory = memory_dir(config)
    try:
        salt = memory_salt(directory)
        name = _fingerprint(path, options, go_on)
    except OSError as error:
        log.warning("nothing is kept on disk: %s: %s (set memory.path)", error.filename or directory, error.strerror)
        return forgetful()
    old = AnswerStore(directory / answers.NAME, budget_bytes=config.memory.answers_mb << 20)
    return Memory(
        BlockStore(directory / block_directory.NAME, fingerprint=name, budget_bytes=config.memory.disk_mb << 20),
        old if config.memory.answers else None,
        fingerprint=name,
        block_tokens=config.memory.block_tokens,
        salt=salt,
        element_bytes=2 if options.kv_type == "f16" else 1,
    )


def forgetful() -> Memory:
    return Memory(None, None, fingerprint=FORGETFUL, block_tokens=0, salt=b"", element_bytes=1)


def _fingerprint(path: Path, options: LlamaOptions, go_on: Callable[[], bool]) -> bytes:
    """Everything that decides the bytes of a cell, and nothing that does not: not threads, not the path, and the number
    of cells only where it decides how positions are told (as llama.cpp's `get_rope_factors` has it)."""
    facts = {
        "kv_type": options.kv_type,
        "flash_attention": str(options.flash_attention),
        "extra_buffers": str(options.extra_buffers),
        "exact": str(options.exact),
        "own_kernels": str(options.own_kernels),
        "llama": importlib.metadata.version("llama-cpp-python"),
    }
    shape = read_shape(split_parts(path))
    if shape is None or shape.long_rope:
        facts["cells"] = str(options.num_cells)
    return fingerprint(model_digest(split_parts(path), cache_dir(), go_on), facts)


def memory_salt(directory: Path, *, own: bytes = b"") -> bytes:
    """Random bytes of this directory's own, so that the names of blocks tell nobody what is in them. `own`: those to
    be used where there are none, by who has named blocks with them."""
    file = directory / "salt"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not file.exists():
        part = directory / f".salt-{secrets.token_hex(8)}"
        try:
            part.touch(mode=0o600)
            part.write_bytes(own or secrets.token_bytes(32))
            put(part, file)
        except FileExistsError:
            pass
        finally:
            part.unlink(missing_ok=True)
    return file.read_bytes()
