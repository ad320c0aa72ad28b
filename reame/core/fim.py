"""Fill in the middle: what a gap's surroundings are to a model that was trained for it. Pure.

The order is prefix, suffix, middle. The lines that are being typed, at most 32, are put behind the marker of the
middle, as its beginning: the model goes on with them in one piece, and a further key stroke adds tokens at the very
end, so that all that was computed for the last one is still good. (Before the suffix, as most servers put them, they
would make the whole suffix new each time.) Several files come in the form of the Qwen2.5-Coder report
(arXiv:2409.12186).
"""

from __future__ import annotations

from typing import Protocol

from attrs import frozen

_LINES = (32, 8)
"""The prefix ends where a whole number of so many lines do, so that it seldom moves: when it does, the suffix is
computed anew. The first number counts where there are so many lines and they are no more than `_TYPED` of the room."""
_TYPED = 0.25
"""Longer, they would push too much else out of a context."""

_SHARES = 16
"""Where something is cut goes in steps of this share of the room: so it stays cut there for many key strokes."""


_FRAME = 32
"""Tokens that the names of the repository and of the current file take, at most."""


@frozen(kw_only=True)
class FimTokens:
    """A model's own marks: token ids, and the three that it cannot do without as text."""

    prefix: int
    suffix: int
    middle: int
    repository: int | None = None
    file: int | None = None
    texts: tuple[str, str, str] = ("", "", "")
    """Of prefix, suffix and middle."""


@frozen(kw_only=True)
class Infill:
    """A gap: what stands right before and right behind it.

    `extra` are other files, name and text, the most telling last. `before` goes in front of it all as it is.
    `parse_special`: prefix and suffix may hold a model's control tokens. `cut`: what does not fit the context is left
    out; otherwise it is an error, as for any prompt.
    """

    prefix: str
    suffix: str
    extra: tuple[tuple[str, str], ...] = ()
    before: str = ""
    parse_special: bool = False
    cut: bool = False


class Tokenize(Protocol):
    """Text to tokens; nothing is put in front."""

    def __call__(self, text: str, *, parse_special: bool) -> list[int]: ...


@frozen
class Layout:
    """`typed`: so many tokens at the end are the lines being typed. `is_cut`: not all fitted."""

    tokens: tuple[int, ...]
    typed: int
    is_cut: bool = False


def lay_out(infill: Infill, fim: FimTokens, tokenize: Tokenize, *, room: int, first: tuple[int, ...] = ()) -> Layout:
    """The prompt, which begins with the tokens `first`.

    When `infill.cut`, it has at most `room` tokens as far as that can be: whole other files are left out, the first
    ones first, then the beginning of the prefix and the end of the suffix, which keeps a quarter of the room.
    """
    special = infill.parse_special
    for most in _LINES:
        above, lines = _split(infill.prefix, most)
        typed = tokenize(lines, parse_special=special)
        if above.count("\n") >= most and len(typed) <= _TYPED * room:
            break
    prefix = tokenize(above, parse_special=special)
    suffix = tokenize(infill.suffix, parse_special=special)
    before = [*first, *tokenize(infill.before, parse_special=True)]
    files = [_file_tokens(name, text, fim, tokenize) for name, text in infill.extra]
    step = max(room // _SHARES, 1)
    room -= len(before) + 3 + len(typed)
    is_cut = infill.cut and sum(map(len, files)) + len(prefix) + len(suffix) + (_FRAME if files else 0) > room
    if is_cut:
        room = max(room // step * step, 0)
        prefix, suffix = _cut(prefix, suffix, room, step)
        files = _last(files, (room - _FRAME - len(prefix) - len(suffix)) // step * step)
    if files:
        before += [*_opening(fim, tokenize), *(token for file in files for token in file), *_current(fim, tokenize)]
    tokens = (*before, fim.prefix, *prefix, fim.suffix, *suffix, fim.middle, *typed)
    return Layout(tokens, len(typed), is_cut)


def _split(prefix: str, most: int) -> tuple[str, str]:
    """What stands above the lines that are being typed, and these, less than `most`; where there are few lines, only
    the last of them."""
    lines = prefix.split("\n")
    whole = len(lines) - 1
    above = whole - whole % most if whole >= most else whole
    return "".join(line + "\n" for line in lines[:above]), "\n".join(lines[above:])


def _cut(prefix: list[int], suffix: list[int], room: int, step: int) -> tuple[list[int], list[int]]:
    suffix = suffix[: max(room // 4, room - len(prefix))]
    excess = len(prefix) + len(suffix) - room
    return (prefix[-(-excess // step) * step :] if excess > 0 else prefix), suffix


def _last(files: list[list[int]], room: int) -> list[list[int]]:
    """As many whole files from the end as fit."""
    first = len(files)
    while first and len(files[first - 1]) <= room:
        first -= 1
        room -= len(files[first])
    return files[first:]


def _file_tokens(name: str, text: str, fim: FimTokens, tokenize: Tokenize) -> list[int]:
    if fim.file is None:
        return tokenize(f"\n\n{text}\n", parse_special=False)
    return [fim.file, *tokenize(f"{name}\n{text}", parse_special=False)]


def _opening(fim: FimTokens, tokenize: Tokenize) -> list[int]:
    return [] if fim.repository is None else [fim.repository, *tokenize("project\n", parse_special=False)]


def _current(fim: FimTokens, tokenize: Tokenize) -> list[int]:
    return [] if fim.file is None else [fim.file, *tokenize("current\n", parse_special=False)]


def read_marks(text: str, fim: FimTokens) -> tuple[str, str, str] | None:
    """(before, prefix, suffix) of a prompt that is in the model's own form already and ends with the mark of the
    middle; None of any other. Marks that contain blanks are not looked for: the blanks around them are not the text's.
    """
    before_mark, suffix_mark, middle_mark = fim.texts
    if not all(mark.startswith("<") for mark in fim.texts) or not text.endswith(middle_mark):
        return None
    before, found, rest = text.removesuffix(middle_mark).partition(before_mark)
    prefix, also_found, suffix = rest.partition(suffix_mark)
    if not found or not also_found or any(mark in prefix + suffix for mark in fim.texts):
        return None
    return before, prefix, suffix
