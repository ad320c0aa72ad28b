"""llama.cpp's tokenizer. The vocabulary never changes after the load, so any thread may call it."""

from __future__ import annotations

import ctypes
from typing import Any

from reame.core.fim import FimTokens

_FIM = ("pre", "suf", "mid", "rep", "sep")


class LlamaVocabulary:
    """See `engine.base.Vocabulary`. `library` is llama_cpp's low-level module, `vocab` its pointer."""

    def __init__(self, library: Any, vocab: Any) -> None:
        self._library = library
        self._vocab = vocab
        self.size: int = library.llama_vocab_n_tokens(vocab)
        self._pieces: dict[int, bytes] = {}

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        data = text.encode("utf-8", "replace")
        room = len(data) + 8
        while True:
            tokens = (ctypes.c_int32 * room)()
            count = self._library.llama_tokenize(
                self._vocab, data, len(data), tokens, room, add_special, parse_special
            )
            if count >= 0:
                return list(tokens[:count])
            room = -count

    def spelled(self, token: int) -> bytes:
        return self._render(token, special=True)

    def text(self, token: int) -> str:
        """`spelled` as text."""
        return self.spelled(token).decode("utf-8", "replace")

    def fim_tokens(self) -> FimTokens | None:
        """The marks for filling in the middle that llama.cpp knows this vocabulary to have."""
        found = [getattr(self._library, f"llama_vocab_fim_{name}")(self._vocab) for name in _FIM]
        prefix, suffix, middle, repository, file = found
        if min(prefix, suffix, middle) < 0:
            return None
        return FimTokens(
            prefix=prefix,
            suffix=suffix,
            middle=middle,
            repository=repository if repository >= 0 else None,
            file=file if file >= 0 else None,
            texts=(self.text(prefix), self.text(suffix), self.text(middle)),
        )

    def eog_tokens(self) -> frozenset[int]:
        return frozenset(t for t in range(self.size) if self._library.llama_vocab_is_eog(self._vocab, t))

    def piece(self, token: int) -> bytes:
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._render(token, special=False)
        return piece

    def _render(self, token: int, *, special: bool) -> bytes:
        room = 64
        while True:
            buffer = ctypes.create_string_buffer(room)
            count = self._library.llama_token_to_piece(self._vocab, token, buffer, room, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            room = -count
