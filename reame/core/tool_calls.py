"""From the text of an answer, as it comes, to the calls of tools in it. Pure.

The text is known to keep to the grammar of `constraint.tool_grammar`: what follows an opening mark is a call.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from attrs import define, frozen

from reame.core.text import num_begun
from reame.core.tools import OPEN

if TYPE_CHECKING:
    from collections.abc import Iterator

_HEAD = re.compile(r'\s*\{"name": ("(?:[^"\\]|\\.)*"), "arguments": ')


@frozen
class Said:
    """Text outside of any call."""

    text: str


@frozen
class CallBegins:
    """The call number `index` of an answer, counted from 0."""

    index: int
    name: str


@frozen
class Arguments:
    """More of the JSON text of the arguments of call number `index`."""

    index: int
    text: str


Part = Said | CallBegins | Arguments


@define
class CallReader:
    """Takes the pieces of one answer. What may be the beginning of a mark is held back until it is known; blanks
    before a call are nothing that is said. `must_call`: the answer is nothing but calls. `either`: it is text or calls,
    so that marks within a text are none."""

    must_call: bool = False
    either: bool = False
    says: bool = False
    """Something was said."""
    num_calls: int = 0
    _held: str = ""
    _in_call: bool = False
    _arguments: JsonEnd | None = None

    def take(self, text: str) -> list[Part]:
        self._held += text
        return list(self._parts())

    def end(self, *, was_cut: bool = False) -> list[Part]:
        """What is left when the answer is over: text that looked like the beginning of a mark. Where the answer
        `was_cut` it is one, when a call had to come or there is more of it than a single character."""
        was_mark = was_cut and (self.must_call or num_begun(self._held, OPEN) > 1) and not (self.either and self.says)
        left = "" if self.num_calls or self._in_call or was_mark else self._held
        self._held = ""
        return [Said(left)] if left else []

    def _parts(self) -> Iterator[Part]:
        while self._held:
            if self._arguments is not None:
                size = self._arguments.take(self._held)
                yield Arguments(self.num_calls - 1, self._cut(size))
                self._arguments = None if self._arguments.is_over else self._arguments
                self._in_call = self._arguments is not None
            elif self._in_call:
                head = _HEAD.match(self._held)
                if head is None:
                    return
                self._cut(head.end())
                self._arguments = JsonEnd()
                self.num_calls += 1
                yield CallBegins(self.num_calls - 1, json.loads(head.group(1)))
            else:
                mark = -1 if self.either and self.says else self._held.find(OPEN)
                said = self._cut(self._surely_said(mark))
                if said and not self.num_calls:
                    self.says = True
                    yield Said(said)
                if mark < 0 or (self.either and self.says):
                    return
                self._cut(mark - len(said) + len(OPEN))
                self._in_call = True

    def _cut(self, size: int) -> str:
        cut, self._held = self._held[:size], self._held[size:]
        return cut

    def _surely_said(self, mark: int) -> int:
        """How much of what is held comes before the blanks before the opening mark at `mark`, or if that is -1, before
        what may become one."""
        end = len(self._held) - num_begun(self._held, OPEN) if mark < 0 else mark
        return len(self._held[:end].rstrip())


@define
class JsonEnd:
    """Finds where a JSON object ends, in pieces of a text that begins with it."""

    is_over: bool = False
    _depth: int = 0
    _in_string: bool = False
    _escaped: bool = False

    def take(self, text: str) -> int:
        """How much of the text belongs to the object."""
        for place, letter in enumerate(text, 1):
            if self._in_string:
                self._in_string = letter != '"' or self._escaped
                self._escaped = letter == "\\" and not self._escaped
            elif letter == '"':
                self._in_string = True
            elif letter in "{[":
                self._depth += 1
            elif letter in "}]":
                self._depth -= 1
                if not self._depth:
                    self.is_over = True
                    return place
        return len(text)
