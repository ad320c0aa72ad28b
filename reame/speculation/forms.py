"""Suggeritore: what form, not content, puts next. List numbers, bullets, table rows, headings, JSON, code indentation.

Works on text never seen before: it reads the style from the lines above. Pure text; a wrong guess costs a row.
"""

from __future__ import annotations

import re

from reame.speculation.forms_json import json_guess

_NUMBER = re.compile(r"([ \t]*)((?:\d+\.)*)(\d{1,4})([.):\]]|\.\))([ \t]+|$)")
"""1. 2) 3: 1.2.3. at the beginning of a line: indentation, upper levels, the number, what closes it, blanks."""
_LABEL = re.compile(r"([ \t]*(?:\*\*)?[A-Z][A-Za-z]{0,15} ?)(\d{1,4})([.):])((?:\*\*)?[ \t]*)")
"""Step 4: and Q3. and **Part 2:**"""
_LETTER = re.compile(r"([ \t]*\(?)([a-y]|[A-Y])([.)])([ \t]+)")
_BULLET = re.compile(r"([ \t]*)([-*+\u2022\u2013])([ \t]+)(\[[ xX]\] )?")
_HEADING = re.compile(r"(#{1,6} )(?:(\w+ ))?((?:\d+\.)*)(\d{1,4})([.:)]?)( *)")
_INDENT = re.compile(r"[ \t]*")
_OPENERS = (":", "{", "(", "[")


def guess(text: str) -> str:
    """The form that most likely comes next after `text`, the end of what was generated; "" when nothing is sure."""
    if not text:
        return ""
    last = text[-1]
    if last == "\n":
        return _after_newline(text)
    if last in '"}],:[{':
        return json_guess(text)
    if last == " " and text.endswith("# "):
        return _heading(text)
    return ""


def _after_newline(text: str) -> str:
    lines = text.rstrip("\n").rsplit("\n", 12)
    line = lines[-1]
    blank = len(text) - len(text.rstrip("\n")) > 1
    if not line.strip():
        return ""
    if line.lstrip().startswith("|"):
        return "" if blank else _table(lines)
    item = _next_item(line)
    if item:
        return item if not blank or _is_spaced(lines) else ""
    if blank:
        return _item_after_prose(lines)
    return _indentation(lines)


def _next_item(line: str) -> str:
    """The beginning of the list item after the one that begins with this line."""
    if match := _NUMBER.match(line):
        indent, upper, number, close, blanks = match.groups()
        return f"{indent}{upper}{int(number) + 1}{close}{blanks}"
    if match := _BULLET.match(line):
        indent, bullet, blanks, box = match.groups()
        return f"{indent}{bullet}{blanks}{'[ ] ' if box else ''}"
    if match := _LABEL.match(line):
        label, number, close, blanks = match.groups()
        return f"{label}{int(number) + 1}{close}{blanks}"
    if match := _LETTER.match(line):
        indent, letter, close, blanks = match.groups()
        return f"{indent}{chr(ord(letter) + 1)}{close}{blanks}"
    return ""


def _is_spaced(lines: list[str]) -> bool:
    """The items above are parted by blank lines, or there is only one item yet."""
    above = [line for line in lines[:-1] if _next_item(line)]
    return not above or (len(lines) > 2 and not lines[-2].strip())


def _item_after_prose(lines: list[str]) -> str:
    """After a blank line: the next item, when the last line only goes on with an item's text."""
    for line in reversed(lines[:-1]):
        if not line.strip():
            return ""
        if item := _next_item(line):
            return item
    return ""


def _table(lines: list[str]) -> str:
    """The separator under a header, the beginning of a row under that."""
    line = lines[-1]
    indent = _INDENT.match(line)
    assert indent is not None
    columns = line.strip().strip("|").count("|") + 1
    is_header = len(lines) < 2 or not lines[-2].lstrip().startswith("|")
    if is_header and line.rstrip().endswith("|"):
        cell = " --- |" if line.lstrip().startswith("| ") else "---|"
        return f"{indent[0]}|{cell * columns}\n"
    return f"{indent[0]}| " if len(lines) > 1 else ""


def _heading(text: str) -> str:
    """Behind "## ": the number that the headings above lead to."""
    level = text[text.rfind("\n") + 1 :]
    for line in reversed(text.rsplit("\n", 60)[:-1]):
        match = _HEADING.match(line)
        if match and match[1] == level:
            _, word, upper, number, close, blanks = match.groups()
            return f"{word or ''}{upper}{int(number) + 1}{close}{blanks}"
    return ""


def _indentation(lines: list[str]) -> str:
    """The same as in the line above, deeper behind what opens a block."""
    line = lines[-1]
    match = _INDENT.match(line)
    assert match is not None
    here = match[0]
    if line.rstrip().endswith(_OPENERS) and (here or _is_code(line)):
        return here + _unit(lines)
    return here


def _is_code(line: str) -> bool:
    """A line at the margin that opens a block, and not a sentence that ends with a colon."""
    stripped = line.rstrip()
    words = ("def ", "class ", "if ", "for ", "while ", "with ", "try:", "else:", "elif ", "except", "async ", "match ")
    return not stripped.endswith(":") or stripped.startswith(words)


def _unit(lines: list[str]) -> str:
    """One level of indentation, as seen above; four blanks when nothing was."""
    steps = {len(indent[0]) for line in lines if (indent := _INDENT.match(line)) and indent[0] and line.strip()}
    if any(line.startswith("\t") for line in lines):
        return "\t"
    return " " * (min(steps) if steps else 4)
