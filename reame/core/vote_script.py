"""What regular expressions do not know of scripts: which have no blanks, and which signs stand within words. Pure."""

from __future__ import annotations

import re

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\uff66-\uff9f"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Characters of scripts without blanks, and below others, for classes of regular expressions."""
HANGUL = "\uac00-\ud7a3"
"""Has blanks, but a number often touches the word before it."""
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u200c\u200d"
"""Accents and vowel signs, which are no letters to `re`: all of the Indic scripts but their full stops."""
WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W{UNSPACED}]|[{_MARKS}])+")
"""A word; where there are no blanks, a character."""
_CHARACTER = re.compile(rf"[{UNSPACED}]")


def num_words(text: str) -> int:
    """Between blanks; where there are none, three characters are about a word."""
    return len(text.split()) + len(_CHARACTER.findall(text)) // 3
