"""A model's vocabulary as llguidance wants it."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np
from attrs import frozen
from llguidance import LLTokenizer, TokenizerWrapper

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray


class Vocabulary(Protocol):
    """What is needed of `engine.base.Vocabulary`."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...

    def piece(self, token: int) -> bytes: ...


MAX_KNOWN = 4096
MAX_KNOWN_CHARS = 256
"""Texts whose tokens are kept, and how long they are at most: what a schema forces comes in each answer anew, and to
cut it takes 50 us."""


class Cutter:
    """Text to tokens that spell it byte for byte, whatever the vocabulary does to texts, such as the space that
    SentencePiece puts in front of each.

    `pieces` are the texts of all tokens, b"" for control tokens. Any thread.
    """

    def __init__(self, vocabulary: Vocabulary, pieces: tuple[bytes, ...]) -> None:
        self._vocabulary = vocabulary
        self._pieces = pieces
        self._known = lru_cache(MAX_KNOWN)(self._cut)

    def __call__(self, text: str) -> list[int]:
        return list(self._known(text)) if len(text) <= MAX_KNOWN_CHARS else self._cut(text)

    def _cut(self, text: str) -> list[int]:
        tokens = self._vocabulary.tokenize(text, add_special=False, parse_special=False)
        wanted, spelled = text.encode(), self._spelled(tokens)
        if spelled == wanted:
            return tokens
        if spelled == b" " + wanted:
            return [*self._longest(self._pieces[tokens[0]][1:]), *tokens[1:]]
        return self._longest(wanted)

    def exactly(self, text: str) -> list[int] | None:
        """None when there are no tokens that spell it."""
        tokens = self(text)
        return tokens if self._spelled(tokens) == text.encode() else None

    def _spelled(self, tokens: list[int]) -> bytes:
        return b"".join(self._pieces[token] for token in tokens)

    def _longest(self, text: bytes) -> list[int]:
        """Always the longest token that fits; what none begins with is left out, with all behind it."""
        tokens, start = [], 0
        while start < len(text):
            ends = range(min(len(text), start + self._most_bytes), start, -1)
            end = next((end for end in ends if text[start:end] in self._ids), 0)
            if not end:
                break
            tokens.append(self._ids[text[start:end]])
            start = end
        return tokens

    @cached_property
    def _most_bytes(self) -> int:
        return max(map(len, self._pieces))

    @cached_property
    def _ids(self) -> dict[bytes, int]:
        return {piece: token for token, piece in enumerate(self._pieces) if piece}


@frozen
class Tokens:
    """`ends`: whether a token ends a generation."""

    tokenizer: LLTokenizer
    cut: Cutter
    ends: NDArray[np.bool_]

    @property
    def size(self) -> int:
        return len(self.ends)

    @cached_property
    def end_ids(self) -> NDArray[np.intp]:
        return np.flatnonzero(self.ends)


def tokens_of(vocabulary: Vocabulary, size: int, eog_tokens: Collection[int]) -> Tokens:
    """Takes 0.1 s for 49,000 tokens, 0.4 s for 152,000: once for each model, not in the event loop."""
    pieces = tuple(map(vocabulary.piece, range(size)))
    ends = np.zeros(size, bool)
    ends[list(eog_tokens)] = True
    cut = Cutter(vocabulary, pieces)
    wrapped = _Wrapped(cut, pieces, eog_tokens)
    return Tokens(LLTokenizer(wrapped, n_vocab=size, eos_token=sorted(eog_tokens)), cut, ends)


class _Wrapped(TokenizerWrapper):
    """What LLTokenizer asks for; the attributes' names are llguidance's, whose own constructor is for other libraries.

    Control tokens all have the same name, which says nothing: no constraint lets them into a text.
    """

    def __init__(self, cut: Cutter, pieces: tuple[bytes, ...], eog_tokens: Collection[int]) -> None:
        self._cut = cut
        self.is_tokenizer_wrapper = True
        self.bos_token_id = None
        self.eos_token_id = min(eog_tokens)
        self.special_token_ids = [token for token, piece in enumerate(pieces) if not piece or token in eog_tokens]
        self.tokens = list(pieces)
        for token in self.special_token_ids:
            self.tokens[token] = b"<control>"

    def __call__(self, text: str) -> list[int]:
        return self._cut(text)
