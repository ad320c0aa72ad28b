"""The punctuation of JSON in the style that the text has so far."""

from __future__ import annotations

import re

_KEY = re.compile(r'"[^"\\\n]{0,60}"(\s*:\s*)')
_ITEM = re.compile(r'[\]}"\del](,\s*)"')
"""The comma between two members, with its blanks or line break; `e` and `l` end true, false and null."""
_WINDOW = 1200


def json_guess(text: str) -> str:
    """What comes behind a quote, brace, bracket, comma or colon; "" outside of JSON."""
    begins = _begin(text)
    if begins < 0:
        return ""
    stack, in_string, is_key = _scan(text, begins)
    if in_string or not stack:
        return ""
    last, style = text[-1], text[max(0, len(text) - _WINDOW) :]
    if last == '"' and is_key:
        return _colon(style)
    if last in '"}]':
        return _comma(style)
    if last == "," and stack[-1] == "{":
        return _comma(style)[1:]
    if last == ":":
        return _colon(style[:-1])[1:]
    return ""


def _begin(text: str) -> int:
    """Where the JSON value at the text's end begins: at the first brace or bracket that begins a line or a word."""
    window = text[-_WINDOW:]
    match = re.search(r'(?:^|\n|```json\n|[ \t])([{\[])\s*["{\[\]}\d]', window)
    return len(text) - len(window) + match.start(1) if match else -1


def _scan(text: str, begins: int) -> tuple[list[str], bool, bool]:
    """(open brackets, whether the end is inside a string, whether the last string was a key)."""
    stack: list[str] = []
    in_string = escaped = expects_key = is_key = False
    for char in text[begins:]:
        if in_string:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == '"':
                in_string = False
            continue
        if char == '"':
            in_string, is_key, expects_key = True, expects_key and bool(stack) and stack[-1] == "{", False
        elif char in "{[":
            stack.append(char)
            expects_key = char == "{"
        elif char in "}]":
            if not stack:
                return [], False, False
            stack.pop()
            expects_key = False
        elif char == ",":
            expects_key = bool(stack) and stack[-1] == "{"
    return stack, in_string, is_key


def _colon(style: str) -> str:
    """As behind the last key; the quote of a string with it."""
    found = _KEY.findall(style)
    return (found[-1] if found else ": ") + '"'


def _comma(style: str) -> str:
    """As before the last member that is a string or has a name."""
    found = _ITEM.findall(style)
    return f'{found[-1]}"' if found else ""
