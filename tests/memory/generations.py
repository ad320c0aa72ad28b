"""What the tests of the archive share: texts that repeat themselves as templated answers do."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from reame.memory.archive import Archive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

VOCABULARY = 49_152
FINGERPRINT = bytes(range(32))
ROOMY = 1 << 30


def new_archive(
    directory: Path, *, budget: int = ROOMY, fingerprint: bytes = FINGERPRINT, clock: Callable[[], float] = lambda: 0.0
) -> Archive:
    return Archive(directory, fingerprint=fingerprint, vocab_size=VOCABULARY, budget_bytes=budget, clock=clock)


def text(seed: int, length: int) -> list[int]:
    """Tokens that share no three in a row with another seed's, as good as surely."""
    chance = random.Random(seed)
    return [chance.randrange(100, VOCABULARY) for _ in range(length)]


class Writing:
    """Generations made of phrases, some of which are common, with new words between them."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._phrases = [text(number, self._chance.randint(4, 40)) for number in range(3000)]
        self._common = self._phrases[:30]
        self._last: list[int] = []

    def generation(self) -> list[int]:
        tokens: list[int] = []
        length = self._chance.choice((8, 60, 200, 400, 1000))
        while len(tokens) < length:
            tokens += self._chance.choice(self._common if self._chance.random() < 0.3 else self._phrases)
            tokens += [self._chance.randrange(VOCABULARY) for _ in range(self._chance.randint(0, 12))]
        self._last = tokens[:length]
        return self._last

    def tail(self) -> list[int]:
        """How a text that goes on like one of the last might end."""
        if self._chance.random() < 0.1:
            self.generation()
        stop = self._chance.randint(4, len(self._last))
        return self._last[max(0, stop - 64) : stop]

    def phrase_tail(self) -> list[int]:
        """The inside of a common phrase, behind new words: as many places as a query takes."""
        phrase = self._chance.choice(self._common)
        return [*self.unheard(), *phrase[: max(4, len(phrase) - 3)]][-64:]

    def unheard(self) -> list[int]:
        return [self._chance.randrange(VOCABULARY) for _ in range(64)]
