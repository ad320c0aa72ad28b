"""What llama.cpp's last words mean when a model does not load, in one line that says what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_MEANINGS = (
    (
        r"unknown (?:model |pre-)?(?P<what>(?:architecture|tokenizer)\b[^']*'[^']*')",
        "is of a kind that this llama.cpp does not know ({what}): take another model",
    ),
    (r"invalid magic|failed to read magic", "is not a GGUF file; `reame pull` fetches models that are"),
    (
        r"not within the file bounds|corrupted or incomplete|failed to read (?:key-value|tensor|header)|read error",
        "is damaged or was not downloaded to its end: delete it and fetch it again",
    ),
    (
        r"cannot allocate memory|(?:failed|unable) to allocate|bad_alloc|out of memory",
        "does not fit into the memory that is free: take a smaller model or quantisation",
    ),
    (r"failed to open[^(]*\((?P<what>[^)]*)\)", "cannot be opened ({what})"),
)


def load_failure(name: str, lines: Sequence[str]) -> str:
    """One line on the file `name` from the error lines of `llama_model_load_from_file`, oldest first."""
    said = "\n".join(lines)
    for pattern, meaning in _MEANINGS:
        if match := re.search(pattern, said, re.IGNORECASE):
            return f"{name} {meaning.format(**match.groupdict())}"
    causes = [line for line in lines if line != "failed to load model"]
    cause = causes[-1].removeprefix("error loading model: ") if causes else "llama.cpp gave no reason"
    return f"{name} could not be loaded: {cause}"
