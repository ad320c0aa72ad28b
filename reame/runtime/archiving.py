"""From the config to the archive of what was generated: its directory, and the tokenizer that its tokens are of."""

from __future__ import annotations

import hashlib
import logging
from typing import TYPE_CHECKING

from reame.memory import archive_files
from reame.memory.archive import SHORTEST, Archive
from reame.runtime.recall import memory_dir, memory_salt

if TYPE_CHECKING:
    from reame.config import Config
    from reame.core.sequence import Sequence
    from reame.engine.base import Vocabulary

LEAD = 128
"""Tokens of a prompt's end that are kept with the answer: what is asked alike is answered alike from the first token
on, and what differs in two prompts (names, numbers) differs in their answers."""

log = logging.getLogger(__name__)


def open_archive(config: Config, vocabulary: Vocabulary, vocab_size: int) -> Archive | None:
    """None when none is wanted, or none can be. Looks at every token (3 us each), so call it in a thread."""
    if not (config.memory.enabled and config.memory.archive):
        return None
    directory = memory_dir(config)
    try:
        salt = memory_salt(directory)
    except OSError as error:
        log.warning("no archive: %s: %s (set memory.path)", error.filename or directory, error.strerror)
        return None
    return Archive(
        directory / archive_files.NAME,
        fingerprint=tokenizer_fingerprint(vocabulary, vocab_size),
        vocab_size=vocab_size,
        budget_bytes=config.memory.archive_mb << 20,
        salt=salt,
    )


def archived_part(sequence: Sequence) -> list[int]:
    """What is kept of a sequence that is over; nothing when it generated too little to learn from."""
    if sequence.num_generated < SHORTEST or sequence.request.passing:
        return []
    return sequence.tokens[max(0, len(sequence.request.prompt) - LEAD) :]


def tokenizer_fingerprint(vocabulary: Vocabulary, vocab_size: int) -> bytes:
    """32 bytes that say which text each token id stands for. Models of one family have the same."""
    hashed = hashlib.blake2b(digest_size=32, person=b"reame.tokenizer")
    for token in range(vocab_size):
        spelled = vocabulary.spelled(token)
        hashed.update(len(spelled).to_bytes(4, "little") + spelled)
    return hashed.digest()
