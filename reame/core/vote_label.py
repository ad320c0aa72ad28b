"""The label that a text comes to: the letter of an option, a yes or no, a class. Pure."""

from __future__ import annotations

import re

from reame.core.vote_final import final_part, plain

LONGEST = 4
"""Words of a label at most."""
_OPTION = re.compile(
    r"^\W*(?:\(([A-Za-z])\)|\[([A-Za-z])\]|(?i:option\s+)?([A-Z])(?:[).:,\]]|\s*$|\s*[-\u2013\u2014]\s))"
)
_EDGE = re.compile(r"^\W+|\W+$")
_CLAUSE = re.compile(r"[.,:;!?\n]|\s[-\u2013\u2014]\s")


def final_label(text: str) -> str | None:
    """In lower case and without punctuation. Looked for in what follows a sign of the final answer, then at the text's
    beginning, then in its last line; None when nothing there is as short as a label."""
    text = plain(text).strip()
    part = final_part(text)
    lines = text.splitlines()
    places = (part, text, lines[-1] if len(lines) > 1 else None)
    return next((label for place in places if place and (label := _label(place))), None)


def is_short(text: str) -> bool:
    """Whether all of it could be a label."""
    return 0 < len(text.split(None, LONGEST)) <= LONGEST


def normal(text: str) -> str:
    """One spelling of a label or a text: lower case, single spaces, nothing but words at its edges."""
    return _EDGE.sub("", " ".join(text.casefold().split()))


def _label(text: str) -> str | None:
    if option := _OPTION.match(text):
        return next(letter for letter in option.groups() if letter).casefold()
    clause = _CLAUSE.split(text.strip(" \n\"'`*_([{"), maxsplit=1)[0]
    return (normal(clause) or None) if is_short(clause) else None
