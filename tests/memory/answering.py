"""Old answers to keep: keys, a small one with all kinds of fields, long ones; and what the log said."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING

from reame.core.events import Delta, TokenLogprob, Usage
from reame.memory.answer_format import Answer

if TYPE_CHECKING:
    import pytest

LOGPROB = TokenLogprob(5, b"\xff\x00", -0.1, ((1, b"a", float("-inf")), (2, b"", -1e-300)))
ANSWER = Answer(
    deltas=(Delta(text="Hello, "), Delta(text=""), Delta(text="\U0001f30d\n\0", logprobs=(LOGPROB,))),
    reason="stop",
    usage=Usage(prompt_tokens=3, cached_tokens=2, completion_tokens=1),
)


def key(number: int) -> bytes:
    return number.to_bytes(32, "little")


def long(number: int) -> Answer:
    """About 1.2 kB that do not pack, another for each number."""
    text = random.Random(number).randbytes(600).hex()
    return Answer(deltas=(Delta(text=text),), reason="length", usage=ANSWER.usage)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
