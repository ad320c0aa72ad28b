"""Where in a text its final answer stands. Pure."""

from __future__ import annotations

import re

_BOXED = re.compile(r"\\boxed\s*\{")
_HASHES = re.compile(r"^[ \t]*####(?!#)[ \t]*(\S.*)$", re.MULTILINE)
_ALONE = re.compile(r"\W*+(?:\d[\d.,'/ ]*+|[a-z]|yes|no)\W*+", re.IGNORECASE)
_MARKER = re.compile(
    r"\b(?:answer|result|solution|antwort|ergebnis|lösung|réponse|résultat|respuesta|resultado|risposta|risultato)\b"
    r"[^\n.:=\d]{0,40}?(?:\b(?:is|are|was|ist|lautet|est|es|è)\b|[:=])"
    "|(?:答案|答え|结果|結果|正解)[ ]?(?:是|为|為|は|[:=\uff1a])",
    re.IGNORECASE,
)
_EMPHASIS = re.compile(r"(?<!\w)(?:\*\*|__)|(?:\*\*|__)(?!\w)", re.ASCII)
_WORDS = re.compile(r"\\(?:text(?:bf|it|rm)?|mathrm|mathbf|mbox)\s?\{([^{}]*)\}")
MOST_CHARACTERS = 2000
"""Of a text's end are looked at: nobody gives a final answer and then goes on for longer."""


def plain(text: str) -> str:
    """The end of a text, without the emphasis of Markdown and LaTeX's commands for words. `2**3` is no emphasis."""
    return _WORDS.sub(r"\1", _EMPHASIS.sub("", text[-MOST_CHARACTERS:]))


def final_part(text: str) -> str | None:
    """What follows the last sign of a final answer: the inside of a LaTeX box, the line after `####`, the line after
    words such as "the answer is". None when there is no such sign. `text` is plain."""
    boxes = list(_BOXED.finditer(text))
    if boxes:
        return _inside(text[boxes[-1].end() :])
    hashed = _hashed(text)
    return _behind_words(hashed or text) or hashed


def _inside(text: str) -> str:
    """Up to the brace that closes one opened before."""
    depth = 1
    for end, char in enumerate(text):
        depth += (char == "{") - (char == "}")
        if not depth:
            return text[:end]
    return text


def _hashed(text: str) -> str | None:
    """What follows the last `####` that is no heading: it begins the last line, or nothing but a number, a letter or
    a yes or no follows it."""
    end = len(text.rstrip())
    answers = [line[1] for line in _HASHES.finditer(text) if line.end() >= end or _ALONE.fullmatch(line[1])]
    return answers[-1] if answers else None


def _behind_words(text: str) -> str | None:
    markers = list(_MARKER.finditer(text))
    if not markers:
        return None
    lines = text[markers[-1].end() :].lstrip(" :=\uff1a\n").splitlines()
    return lines[0] if lines else None
