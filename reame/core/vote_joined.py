"""Numbers that are one answer together: a time, a date, a pair, a range, a formula. Pure.

They are looked for in a skeleton: a text in which each number is one `NUMBER`, and its currency is left out.

A term is a number, or numbers, variables, roots, powers and brackets that touch each other or have an operator between
them. Terms are joined by "and", "or", "to"; by a unit between (2 hours 30 minutes); by commas, where the list ends with
"and", a bracket or the sentence. So the 2 shops are not part of "18 apples, bought in 2 shops".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NUMBER = "\0"
_MONTH = r"(?:Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])[a-z]{0,6}\b(?:[.,]{0,2}[ ](?=\0))?"
_PIECE = rf"""(?:
    \0(?:[AaPp]m\b|a(?![^\W\d_]))?
  | (?<=\0)(?:st|nd|rd|th|\.)?[ ](?:of[ ])?{_MONTH}
  | (?<![^\W\d_])[biknxyz](?![^\W\d_]|\.[a-z])
  | \\(?:sqrt|frac|pi|log|ln|sin|cos|tan|theta|infty)(?![a-z])[ ]?
  | [√π∞][ ]?
  | [\u00b2\u00b3\u00b9\u2070-\u2079]
  | \^(?:\{{[^{{}}\s]{{1,20}}\}}|[-+]?[\w\0]{{1,9}})
  | [(){{}}\[\]]
)"""
"""Of letters only those that are variables and seldom units: 18m is 18."""
_OPERATOR = (
    r"(?:[ ]?(?:\*\*|[-+*/\u00d7\u00b7\u00f7\u00b1\u2212\u2013]|\\(?:cdot|times|div|pm)(?![a-z]))[ ]?"
    r"|:(?=\0)|[ ]:[ ]|[ ](?:x|plus|minus|times)[ ](?=\0))"
)
_BOUND = r"(?:(?<![-=\"'/])(?<!\w\w)(?<![</]\w)(?:[<>≤≥]=?|\\[lg](?:eq?|t)(?![a-z]))[ ]?|(?:\u00b1|\\pm(?![a-z]))[ ]?)"
"""A sign that says more or less, and is no arrow and no end of an HTML tag; or that says both."""
_TERM = rf"(?:{_BOUND}?(?![\^)}}\]]){_PIECE}(?:(?:{_OPERATOR}|[ ](?=[\\√π]))?{_PIECE})*)"
_AND = r"(?:,?[ ](?:and|or|to|und|oder|bis|et|ou|y|e|o)[ ](?!=)|[ ]?[、和与與或][ ]?)"
_UNIT = r"""(?:
    [ ]?(?<![^\W\d_])(?:hours?|hrs?|h|minutes?|min|days?|weeks?|months?|years?|feet|foot|ft|pounds?|dollars?|euros?
      |Euro|Stunden?)\.?,?[ ](?:(?:and|und)[ ])?
  | [ ][^\W\d_]{1,20},?[ ](?:and|und|et|y)[ ]
  | [ ]?(?:年|月|日|小时|時間|[时時点點分元])[ ]?
)(?=\0)"""
_COMMA = r"(?:[ ]?[,;][ ]?)"
_LISTED = rf"(?:{_COMMA}{_TERM}){{1,50}}+"
_END = rf"(?={_COMMA}{_TERM})|(?=[ ]?(?:$|\n|[.!](?:\s|$)|[)\]}}]))|(?<=[)\]}}])"
"""Of a list. Where it goes on after fifty the end is not looked for: it would take long."""
_NAME = r"(?:[a-z][ ]?=[ ]?)"
_EXPRESSION = re.compile(
    rf"""
    (?<![^\s(,;]){_NAME}{_TERM}(?:(?:{_COMMA}|{_AND}){_NAME}{_TERM})+
  | {_TERM}(?:{_LISTED}(?:{_AND}{_TERM}|{_END})|(?:(?:{_AND}|{_UNIT}){_TERM})*)
    """,
    re.VERBOSE,
)
_SEPARATOR = re.compile(rf"{_UNIT}|{_AND}|{_COMMA}", re.VERBOSE)
_DASHES = {ord("\u2212"): "-", ord("\u2013"): "-"}

_BEFORE = re.compile(
    r"a|about|above|after|all|almost|an|and|answer|any|approx|approximately|are|around|at|before|below|between|"
    r"both|but|by|ca|choice|circa|cost|costs|das|der|die|each|en|environ|es|etwa|every|exactly|for|from|had|has|"
    r"have|he|i|if|im|in|is|it|just|les|nearly|no|not|number|of|on|only|option|or|over|price|result|roughly|rund|"
    r"she|since|so|sum|than|that|the|then|there|these|they|this|those|thus|to|total|under|until|was|we|were|when|"
    r"with|you|chf|eur|gbp|inr|jpy|rs|usd",
    re.IGNORECASE,
)
"""With a capital letter before a number none of these is a proper name."""
_WORD = re.compile(r"([^\W\d_][\w.'\u2019]{0,30})[ ]#?$|[^\W\d_][-/.@]$")


@frozen
class Expression:
    """`value`: a number in canonical form, or all of it in lower case without blanks. `is_named`: directly before it
    stands a proper name, or a word that it is glued to, as in Apollo 11 and GPT-4. `is_result`: it is behind the last
    equals sign."""

    value: str
    is_named: bool
    is_result: bool


def joined(skeleton: str, values: Iterable[str]) -> list[Expression]:
    """All expressions of a skeleton, in order. `values` of its numbers; each is in one expression."""
    equals, left = skeleton.rfind("="), iter(values)
    return [
        Expression(_value(match[0], left), _is_named(skeleton[: match.start()]), match.end() > equals)
        for match in _EXPRESSION.finditer(skeleton)
        if NUMBER in match[0]
    ]


def _value(expression: str, values: Iterator[str]) -> str:
    """With the next ones of `values`. A number alone is without its brackets."""
    if expression.strip("(){}[] ") == NUMBER:
        return next(values)
    shown = re.sub(_NAME, "", _SEPARATOR.sub(",", expression))
    shown = "".join(shown.split()).lower().translate(_DASHES)
    if sum(map(shown.count, "([{")) != sum(map(shown.count, ")]}")):
        shown = shown.strip("(){}[]")
    return re.sub(NUMBER, lambda _: next(values), shown)


def _is_named(before: str) -> bool:
    found = _WORD.search(before[-40:])
    if not found:
        return False
    word = found[1]
    return word is None or (word != word.lower() and not _BEFORE.fullmatch(word.strip(".")))
