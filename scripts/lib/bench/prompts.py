"""Prompts that nobody has seen: drawn from a seed, different in every round. Pure.

Plain words in no meaningful order: they defeat every cache and every lookup, and a model continues them without ending
soon. Most words are one token in the vocabularies of small models, so sizes come out near what was asked for; what was
really read is the server's own count, and that is what rates are computed from.
"""

from __future__ import annotations

from random import Random

WORDS = """
water river house garden stone light morning winter summer letter window music paper market bridge field village
mountain island forest animal horse bird fish flower fruit bread sugar coffee table chair door wall floor street
school teacher student doctor farmer soldier captain sister brother mother father friend stranger king queen child
people family group company office building station train ship boat plane engine machine metal glass gold silver paint
color sound voice song story book page word name number question answer reason cause result idea plan project problem
science history language nature weather wind rain snow cloud sun moon star earth fire smoke heart hand foot head face
eye mouth hair skin body blood life death war peace law power money price trade work job game sport team player ball
winner race road path corner center side line circle square box bag bottle cup plate knife spoon green white black
brown small large great long short old young new early late good bad strong weak fast slow hard soft warm cold dry wet
deep high low near far open closed empty full rich poor quiet loud simple strange happy sad
""".split()  # noqa: SIM905 - a list literal would be two hundred lines

LINKS = (
    "of",
    "and",
    "with",
    "under",
    "over",
    "near",
    "behind",
    "before",
    "after",
    "without",
    "against",
    "from",
    "into",
)


class Prompts:
    """The prompts of one round. The same seed and round give both sides the same prompts in the same order."""

    def __init__(self, seed: int, scenario: str, round_: int) -> None:
        self._random = Random(f"{seed}/{scenario}/{round_}")

    def number(self) -> int:
        """A seed for whatever else is drawn in this round."""
        return self._random.randrange(1 << 32)

    def text(self, tokens: int) -> str:
        """About `tokens` tokens long (within a few per cent), ending in the middle of a sentence."""
        words: list[str] = []
        left = tokens
        while left > 0:
            length = left if left <= 14 else self._random.randint(7, 12)
            words += self._sentence(length)
            left -= length
        text = " ".join(words).replace(" .", ".")
        return text.removesuffix(".")

    def _sentence(self, length: int) -> list[str]:
        draw = self._random
        words = [draw.choice(LINKS) if place % 3 == 2 else draw.choice(WORDS) for place in range(length - 1)]
        return [*words, "."]
