"""Twenty questions about the page, each with what a right answer says and what gives a wrong one away. Pure.

Nearly the same prices, negations, conditions, and facts that stand at the very end. A pattern is a regular expression,
whatever the case; an answer is right when all of `says` are found in it and none of `never`.
"""

from __future__ import annotations

import re

from attrs import frozen

YES, NO = r"\byes\b", r"\b(no|not|cannot|can't|don't|doesn't|isn't|aren't|never|closed)\b"


@frozen
class Asked:
    text: str
    says: tuple[str, ...]
    never: tuple[str, ...] = ()

    def is_right(self, answer: str) -> bool:
        plain = answer.replace("\u2019", "'").replace("\u00a0", " ")
        found = [re.search(pattern, plain, re.IGNORECASE) for pattern in self.says]
        wrong = [re.search(pattern, plain, re.IGNORECASE) for pattern in self.never]
        return all(found) and not any(wrong)


QUESTIONS = (
    Asked("What does a rowing boat cost for one hour?", (r"\b14\b",), (r"\b(16|19|58|41)\b",)),
    Asked("What does a pedal boat without a slide cost for one hour?", (r"\b16\b",), (r"\b(14|19|58)\b",)),
    Asked("What does a pedal boat with a slide cost for one hour?", (r"\b19\b",), (r"\b(14|16)\b",)),
    Asked("What does a pedal boat cost for a whole day?", (r"\b68\b",), (r"\b58\b",)),
    Asked("What does a canoe cost for half a day on a Saturday?", (r"\b29\b",), ()),
    Asked("What does the second hour in an electric boat cost?", (r"\b31\b",), ()),
    Asked("Can I hire a sailing boat?", (NO,), (YES,)),
    Asked("Are you open on Tuesdays in July?", (NO,), (YES,)),
    Asked("Are you open on a Wednesday in October?", (NO,), (YES,)),
    Asked("When do you close in the evening in June?", (r"\b(7|19|seven)\b",), (r"\b(5|17)(:00)? ?(pm|o'clock)?\b",)),
    Asked("Do I need a licence for an electric boat?", (NO,), (YES,)),
    Asked("May I take my dog on an electric boat?", (NO,), (YES,)),
    Asked("May I take my dog in a canoe?", (rf"{YES}|allowed|\bmay\b",), (r"\b(not|cannot|can't)\b",)),
    Asked("How much is the deposit for an electric boat?", (r"\b150\b",), (r"\b(41|31)\b",)),
    Asked("Can I pay a hire of 14 euros by card?", (NO,), (YES,)),
    Asked("Does a group of twelve get a discount on a Sunday?", (NO,), (YES,)),
    Asked("Do I get my money back if it only rains?", (NO,), (YES,)),
    Asked("What do I pay if I cancel 24 hours before?", (r"half|\b50 ?(%|per ?cent)",), (r"\bfree\b|\bnothing\b",)),
    Asked("What number do I call in an emergency on the lake?", (r"55 ?81 ?29",), (r"55 ?81 ?20",)),
    Asked("Who is the owner?", (r"Pircher",), ()),
)
