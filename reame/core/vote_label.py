"""The label that a text comes to: the letter of an option, a yes or no, a class. Pure."""

from __future__ import annotations

import re
from unicodedata import normalize

from reame.core.vote_final import final_part, plain
from reame.core.vote_script import num_words

LONGEST = 4
"""Words of a label at most."""
_OPTION = re.compile(
    r"\W*+(?:([A-Za-z])[)\]][.,:;]?|([A-H])[.,;]|([B-H]):|([A-H])(?=\s[-\u2013\u2014]\s)"
    r"|(?i:option)\s\W?([A-Za-z])\b[^\w\s+#]{0,2})(?=\s|$)"
    r"(?!\s+(?:(?:and|or|&)\s|[(\[]?[A-Z](?:[.,)\]]|\s*$)))"
)
"""Not the initials of a name, and not the first of several options. "A:" may be a question's answer as well."""
_YES_NO = re.compile(
    r"\W*+(?:(yes|no|true|false|correct|incorrect|ja|nein|oui|non|s[iíì]|да|нет)(?!\.\s\d)"
    r"(?=[.,:;!?]+(?:\s|$)|\s[-\u2013\u2014]\s|\s(?:it|he|she|they|there|i|we|you|this|that|the|es|er|sie|das)\b|$)"
    r"|(是的?|不是?|对|否|はい|いいえ)(?=[,.!\uff0c。、\uff01]|$))",
    re.IGNORECASE,
)
"""Followed by a sign or by the beginning of a sentence: "No idea" and "No. 5" are something else."""
_CLAUSE = re.compile(r"\n|(?<=[^\W\d_]{4})[.:;!?]\s|,?\sbecause\b|\s[-\u2013\u2014]\s")
"""Ends a class that is followed by reasons. What ends in a point after less than four letters may be shortened."""
_HEADING = re.compile(
    r"\W*+(?:[^\W\d_]{1,20}\s)?(?:answer|category|class|classification|genre|intent|kategorie|klasse|label|language|mood|"
    r"priority|rating|result|sentiment|severity|stance|status|tag|theme|thema|tone|topic|type|urgency|verdict)"
    r"\s?:\W*\s(?=\s*[^\W_])",
    re.IGNORECASE,
)
"""What a class stands behind."""
_BULLET = re.compile(r"^(?:[-+*\u2022]|#{1,6})\s+")
_EDGES = " .,:;!?\u2026\u00bf\u00a1\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u201a«»\u2039\u203a()[]{}*_" + (
    "。、\uff0c\uff0e\uff1a\uff1b\uff01\uff1f\uff08\uff09「」『』【】《》〈〉।॥"
)


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
    return 0 < num_words(text) <= LONGEST


def opening(text: str) -> str | None:
    """The letter of an option, or the yes or no, that a text begins with."""
    found = _YES_NO.match(text) or _OPTION.match(text)
    return found[found.lastindex].casefold() if found and found.lastindex else None


def normal(text: str) -> str:
    """One spelling of a label or a text: lower case, single spaces; no quotes, brackets, emphasis and punctuation at
    its edges. Other signs count: C++ is not C, A- is not A, -1 is not 1."""
    text = normalize("NFC", " ".join(text.casefold().split()))
    return _BULLET.sub("", text).strip(_EDGES)


def _label(text: str) -> str | None:
    """What the text opens with; all of it, or its first line, if that is short; else its first clause, if that is."""
    if opened := opening(text):
        return opened
    text = text.strip(_EDGES)
    if found := _HEADING.match(text):
        return _label(text[found.end() :])
    line = text.split("\n", 1)[0]
    place = next((whole for whole in (text, line) if is_short(whole)), None) or _CLAUSE.split(text, maxsplit=1)[0]
    return (normal(place) or None) if is_short(place) else None
