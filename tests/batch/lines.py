"""Lines of batches, and results of them, for the tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from reame.batch.result import Outcome

if TYPE_CHECKING:
    from pathlib import Path

CHAT = "/v1/chat/completions"


def body_of(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": 8} | more


def line_of(name: str, text: str = "hi", *, url: str = CHAT, **more: Any) -> bytes:
    value = {"custom_id": name, "method": "POST", "url": url, "body": body_of(text, **more)}
    return json.dumps(value).encode()


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def answer_of(text: str, *, prompt: int = 10, cached: int = 4, completion: int = 3) -> Outcome:
    usage = {
        "prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": {"cached_tokens": cached},
    }  # fmt: skip
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Outcome(status=200, request_id="r", body={"choices": [choice], "usage": usage})


def read(path: Path) -> list[dict[str, Any]]:
    """The lines of a JSONL file; all of them must be whole."""
    data = path.read_bytes()
    assert not data or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]
