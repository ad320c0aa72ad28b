"""`reame archive import`: texts, through the model's tokenizer, into the archive."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from reame.catalog import resolve
from reame.commands.archive_texts import texts_in
from reame.commands.archive_work import Here, refusals
from reame.engine.llama_vocabulary_only import load_vocabulary
from reame.errors import ConfigError, ReameError
from reame.memory.archive import Archive
from reame.pull_file import bytes_text
from reame.runtime.archiving import open_archive
from reame.runtime.recall import memory_dir


def take_in(of: Here, files: Sequence[Path], *, key: str, as_json: bool) -> int:
    """All or nothing, as far as the files are at fault. ReameError says which, and where."""
    if not files:
        raise ReameError("there is nothing to import: name a file, as in reame archive import answers.jsonl")
    namespace = _namespace(of, key)
    num_texts = sum(1 for file in files for _ in texts_in(file))
    if not num_texts:
        raise ReameError(f"{', '.join(map(str, files))}: no text in there")
    vocabulary = load_vocabulary(resolve(of.config.model.path))
    archive = open_archive(of.config, vocabulary, vocabulary.size)
    if archive is None:
        raise ConfigError("there is no archive: memory.enabled and memory.archive must be true, memory.path writable")
    with refusals(of):
        for file in files:
            for text in texts_in(file):
                tokens = vocabulary.tokenize(text, add_special=False, parse_special=False)
                archive.write(tokens, namespace=namespace)
        _give_away(memory_dir(of.config))
    _say(archive, num_texts, of, as_json=as_json)
    archive.close()
    return 0


def _namespace(of: Here, key: str) -> str:
    """ConfigError when it is not clear whose texts they are."""
    if of.is_shared or not (key or of.keys):
        return ""
    if key in of.keys:
        return key
    if not of.keys:
        raise ConfigError("there are no API keys (server.api_keys_file), and so one memory for everybody: omit --key")
    known = ", ".join(of.keys)
    if key:
        raise ConfigError(f"there is no API key {key} in server.api_keys_file; there are: {known}")
    raise ConfigError(f"each API key has a memory of its own: say whose texts these are, with --key and one of {known}")


def _give_away(directory: Path) -> None:
    """What root has made in a service's directory is to be the service's."""
    if os.geteuid() != 0:
        return
    owner = directory.stat()
    for path in directory.rglob("*"):
        facts = path.lstat()
        if facts.st_uid == 0 != owner.st_uid and (stat.S_ISDIR(facts.st_mode) or facts.st_nlink == 1):
            os.chown(path, owner.st_uid, owner.st_gid, follow_symlinks=False)


def _say(archive: Archive, num_texts: int, of: Here, *, as_json: bool) -> None:
    stats = archive.stats()
    if as_json:
        print(json.dumps({"texts": num_texts, "tokens": stats.appended, "evicted_segments": stats.evicted}, indent=2))
        return
    print(f"{num_texts} texts, {stats.appended} tokens taken in ({of.directory})")
    if stats.evicted:
        print(f"older texts went: the archive holds {bytes_text(of.budget_bytes)} (memory.archive_mb)")
