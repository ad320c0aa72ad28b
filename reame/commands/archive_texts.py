"""Texts out of the files that people have: plain text, and lines of JSON as OpenAI's tools and servers write them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reame.errors import ReameError

LINES = (".jsonl", ".ndjson")
MOST = 1 << 18
"""Characters of a piece: longer texts are cut after a line, so that no text needs memory without bound."""


def texts_in(file: Path) -> Iterator[str]:
    """The texts of a file, in pieces of at most MOST characters. ReameError names the file and the line at fault."""
    try:
        with file.open(encoding="utf-8-sig") as lines:
            texts = _of_lines(file, lines) if file.suffix.lower() in LINES else _joined(lines)
            for text in texts:
                yield from _pieces(text)
    except OSError as error:
        raise ReameError(f"{file}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ReameError(f"{file}: not UTF-8 text ({error.reason})") from None


def _joined(lines: Iterator[str]) -> Iterator[str]:
    """A plain text, some lines at a time."""
    held: list[str] = []
    size = 0
    for line in lines:
        held.append(line)
        size += len(line)
        if size >= MOST // 2:
            yield "".join(held)
            held, size = [], 0
    yield "".join(held)


def _pieces(text: str) -> Iterator[str]:
    while len(text) > MOST:
        cut = text.rfind("\n", 0, MOST) + 1 or MOST
        yield text[:cut]
        text = text[cut:]
    if text.strip():
        yield text


def _of_lines(file: Path, lines: Iterator[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            texts = texts_of(json.loads(line))
        except (ValueError, RecursionError):
            raise ReameError(f"{file}, line {number}: not JSON") from None
        if texts is None:
            raise ReameError(
                f'{file}, line {number}: no text in it; known are {{"text": ...}}, '
                "answers of OpenAI's API (choices, output), chats (messages) and batch results"
            )
        yield from texts


def texts_of(value: Any) -> list[str] | None:
    """What a model said in one line: of a batch's result, an answer, a chat. A result that failed says nothing.

    None when the line is of no known kind.
    """
    if isinstance(value, str):
        return [value]
    if not isinstance(value, dict):
        return None
    if "response" in value:
        response = value["response"]
        body = response.get("body") if isinstance(response, dict) else None
        return texts_of(body) or [] if value.get("error") is None and body else []
    for field, read in (("choices", _choice), ("messages", _message), ("output", _message)):
        if isinstance(value.get(field), list):
            return [text for each in value[field] if isinstance(each, dict) and (text := read(each))]
    text = _content(value.get("text", value.get("content")))
    return None if text is None else [text]


def _choice(choice: dict[str, Any]) -> str | None:
    message = choice.get("message")
    return _content(message.get("content") if isinstance(message, dict) else choice.get("text"))


def _message(message: dict[str, Any]) -> str | None:
    return _content(message.get("content")) if message.get("role") == "assistant" else None


def _content(content: Any) -> str | None:
    """A string, or the text parts of a list."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
