"""Token pieces to text that may be sent: whole characters only, and never any part of a stop string."""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class TextStream:
    """The text of one sequence. The deltas put together are the same however the bytes were cut into pieces.

    Characters: invalid bytes become U+FFFD just as `bytes.decode("utf-8", "replace")` does; a character that the end
    of the sequence cuts is dropped. Stops: the text ends before the stop that is complete first (of two complete at
    the same character, the longer); what follows it is thrown away. Held back is only the longest end of the text
    that is the beginning of a stop, so at most the longest stop's length - 1 characters.

    `until`: where it comes, the text turns into something else (the call of a tool), and no stop is looked for from
    there on, nor in `until` itself. With stops, an end of the text that may be its beginning is held back too.

    Cost: amortised O(characters x stops), whatever the length of the text so far.
    """

    __slots__ = ("_decoder", "_held", "_matchers", "_unsearched", "_until", "num_untold", "stop", "stopped")

    def __init__(self, stops: Iterable[str] = (), *, num_untold: int = 0, until: str = "") -> None:
        """Empty stop strings are ignored. The first `num_untold` bytes are whole characters that nobody is told."""
        self.num_untold = num_untold
        """Bytes that are still to come and not to be told."""
        self._until = until
        self._unsearched = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._matchers = [_Matcher(stop) for stop in stops if stop]
        self._held = ""
        self.stopped = False
        """A stop string is complete: the sequence is over."""
        self.stop = ""
        """That stop string."""

    @property
    def holding(self) -> bool:
        """Something pushed is not told yet: half a character, or what may become a stop string or `until`."""
        return bool(self._held or self._unsearched or self._decoder.getstate()[0])

    def push(self, piece: bytes) -> str:
        """The text that `piece` makes safe to send, perhaps "". After a stop it is always ""."""
        if self.stopped:
            return ""
        if self.num_untold:
            gone = min(self.num_untold, len(piece))
            piece, self.num_untold = piece[gone:], self.num_untold - gone
        new = self._decoder.decode(piece)
        if not self._matchers:
            return new
        return self._search_until(self._unsearched + new) if self._until else self._search(new)

    def finish(self) -> str:
        """The end of the sequence: what was held back. The rest of a cut character is dropped. What turns out not to be
        `until` may still be a stop."""
        self._decoder.reset()
        text, self._unsearched = self._unsearched, ""
        return self._search(text) + self._take_held()

    def _search_until(self, text: str) -> str:
        place = text.find(self._until)
        size = place if place >= 0 else len(text) - num_begun(text, self._until)
        self._unsearched = text[size:]
        told = self._search(text[:size])
        if place < 0 or self.stopped:
            return told
        self._matchers, text, self._unsearched = [], self._unsearched, ""
        return told + self._take_held() + text

    def _search(self, new: str) -> str:
        """What can be told now that `new` follows what was searched before."""
        if not new:
            return ""
        text, seen = self._held + new, len(self._held)
        for end, char in enumerate(new, seen + 1):
            complete = [matcher.stop for matcher in self._matchers if matcher.advance(char)]
            if complete:
                self.stopped, self.stop = True, max(complete, key=len)
                self._held = self._unsearched = ""
                return text[: end - len(self.stop)]
        safe = len(text) - max(matcher.matched for matcher in self._matchers)
        self._held = text[safe:]
        return text[:safe]

    def _take_held(self) -> str:
        held, self._held = self._held, ""
        return held


def num_begun(text: str, word: str) -> int:
    """How many characters at the end of `text` may be the beginning of `word`, which is not whole there."""
    return next((size for size in range(len(word) - 1, 0, -1) if text.endswith(word[:size])), 0)


class _Matcher:
    """Knuth-Morris-Pratt over a stream: how much of `stop` the text now ends with, in amortised O(1) a character."""

    __slots__ = ("_borders", "matched", "stop")

    def __init__(self, stop: str) -> None:
        self.stop = stop
        self._borders = _borders(stop)
        self.matched = 0

    def advance(self, char: str) -> bool:
        """Take one more character; True when the stop is complete, and then it must not be called again."""
        while self.matched and self.stop[self.matched] != char:
            self.matched = self._borders[self.matched]
        self.matched += self.stop[self.matched] == char
        return self.matched == len(self.stop)


def _borders(word: str) -> list[int]:
    """For each length k, the longest beginning of `word[:k]`, shorter than k, that is also its end."""
    borders = [0, 0]
    for k in range(1, len(word)):
        border = borders[k]
        while border and word[border] != word[k]:
            border = borders[border]
        borders.append(border + (word[border] == word[k]))
    return borders
