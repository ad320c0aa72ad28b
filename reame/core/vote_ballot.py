"""From an answer's text to its ballot: each on its own, so that who votes when has no effect. Pure."""

from __future__ import annotations

import re

from reame.core.vote import Ballot, VoteKind
from reame.core.vote_final import final_part, plain
from reame.core.vote_json import canonical, find_json, leaves, whole_json
from reame.core.vote_label import final_label, is_short, normal, opening
from reame.core.vote_number import answer, expressions, final_number
from reame.core.vote_script import num_words

_EQUATION = re.compile(r"\d.{0,12}=\s*[^\w\s]{0,3}\s?\d")
_LETTERED = re.compile(r"\W*+[A-Za-z]\W+\d")
"""A number that has a letter: it is the number that counts."""
_THOUGHT, _THINKS = re.compile(r"\A.*</think>\s*", re.DOTALL), re.compile(r"\s*<think>")
"""What goes before an answer, and is no part of it; and what has come to none."""
SENTENCE = 16
"""Words of a single sentence at most; with one number in it, that is the answer."""


def ballot(text: str, vote: VoteKind, *, is_label: bool = False) -> Ballot | None:
    """What `text` says about that which is voted on; None when it says nothing about it, and so does not vote.
    Thinking in front of it is left out. `is_label`: it is one of the labels of a list, whole, and labels may differ in
    a single sign."""
    if not is_label and whole_json(text) is None:
        text = _THOUGHT.sub("", text)
        if _THINKS.match(text):
            return None
    if vote == "auto":
        vote = guessed(text)
    if vote == "json":
        found = find_json(text)
        return Ballot("json", canonical(found[0]), leaves(found[0])) if found else None
    if vote == "number":
        number = final_number(text)
        return Ballot("number", number) if number is not None else None
    if vote == "choice" and is_label:
        return Ballot("choice", text) if text else None
    if vote == "choice":
        label = final_label(text)
        return Ballot("choice", label) if label else None
    value = normal(text)
    return Ballot("text", value) if value else None


def guessed(text: str) -> VoteKind:
    """What kind of answer this is: JSON and nothing else; a sentence that opens with yes, no or an option's letter; one
    that says which number or label it comes to; one that calculates; a sentence with one number; a label alone.
    Everything else is text. A number directly behind a proper name is a part of the name: Apollo 11 is a label."""
    if whole_json(text) is not None:
        return "json"
    text = plain(text).strip()
    if "```" in text:
        return "text"
    part = final_part(text)
    place = part or text
    if _is_sentence(place) and opening(place) and not _LETTERED.match(place):
        return "choice"
    if part and _comes_to_a_number(part):
        return "number"
    if part and final_label(text) and is_short(part):
        return "choice"
    found = expressions(text)
    is_alone = len(found) == 1 and not found[0].is_named and num_words(text) <= SENTENCE
    if is_alone or (found and _EQUATION.search(text)):
        return "number"
    return "choice" if is_short(text) and _is_sentence(text) else "text"


def _is_sentence(text: str) -> bool:
    return "\n" not in text and num_words(text) <= SENTENCE


def _comes_to_a_number(part: str) -> bool:
    found = expressions(part)
    return bool(found) and not answer(found).is_named
