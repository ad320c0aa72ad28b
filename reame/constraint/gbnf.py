"""llama.cpp's GBNF as Lark, by llguidance's translator, with what it does not keep to put right.

It makes a lexeme of each rule without recursion, and lexemes are greedy: `word " is " word` never comes to an end where
a word may hold blanks. So a grammar that has no recursion at all becomes one lexeme, within which nothing is greedy.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from llguidance.gbnf_to_lark import GrammarParser, resolve

from reame.constraint.fault import ConstraintFault

if TYPE_CHECKING:
    from re import Match

_ESCAPE = re.compile(r"((?<!\\)(?:\\\\)*)\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8}))")
_WHOLE = "WHOLE_TEXT"


def lark_of(source: str) -> str:
    """Raises ConstraintFault."""
    try:
        rules = GrammarParser().parse(_ESCAPE.sub(_character, source))
        resolve(rules)
        in_order = sorted(rules.values(), key=lambda rule: rule.order)
        start = rules["start"]
        lines = ["%llguidance {}"]
        if start.alternatives.is_terminal() and _WHOLE not in rules:
            start.name = _WHOLE
            lines.append(f"start: {_WHOLE}")
        return "\n".join([*lines, *map(str, in_order)])
    except Exception as error:  # the translator raises many kinds, and stumbles over some texts
        raise ConstraintFault(f"cannot be read as GBNF: {' '.join(str(error).split())[:300]}") from error


def _character(found: Match[str]) -> str:
    r"""An escape by number as the character itself; the translator takes the zeros from its front. ASCII, which has all
    signs of the grammar's own, as \x."""
    code = int(found[2] or found[3], 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        return found[0]
    return found[1] + (f"\\x{code:02x}" if code < 0x80 else chr(code))
