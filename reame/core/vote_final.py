"""Where in a text its final answer stands. Pure."""

from __future__ import annotations

import re

_BOXED = re.compile(r"\\boxed\s*\{")
_HASHES = re.compile(r"^\s*####\s*(.+)$", re.MULTILINE)
_MARKER = re.compile(
    r"\b(?:answer|result|solution|antwort|ergebnis|lösung|réponse|résultat|respuesta|resultado|risposta|risultato)\b"
    r"[^\n.:=\d]{0,40}?(?:\b(?:is|are|was|ist|lautet|est|es|è)\b|[:=])",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"\*\*|__")
MOST_CHARACTERS = 2000
"""Of a text's end are looked at: nobody gives a final answer and then goes on for longer."""


def plain(text: str) -> str:
    """The end of a text, without Markdown's emphasis."""
    return _EMPHASIS.sub("", text[-MOST_CHARACTERS:])


def final_part(text: str) -> str | None:
    """What follows the last sign of a final answer: the inside of a LaTeX box, the line after `####`, the line after
    words such as "the answer is". None when there is no such sign. `text` is plain."""
    boxes = list(_BOXED.finditer(text))
    if boxes:
        return _inside(text[boxes[-1].end() :])
    if hashes := _HASHES.findall(text):
        return str(hashes[-1])
    markers = list(_MARKER.finditer(text))
    if not markers:
        return None
    lines = text[markers[-1].end() :].lstrip(" :=\n").splitlines()
    return lines[0] if lines else None


def _inside(text: str) -> str:
    """Up to the brace that closes one opened before."""
    depth = 1
    for end, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if not depth:
            return text[:end]
    return text
