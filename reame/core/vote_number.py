"""The final number of a text, in a form in which equal numbers are equal strings. Pure.

Read are signs, decimals, thousands, both locales (3.14 and 3,14; 1,234.56 and 1.234,56; 1 234 and 1'234 and the Indian
12,34,567), fractions (3/4, 1 1/2, one character, LaTeX), per cent (a hundredth), powers of ten, words such as million,
and behind an amount of money k, M and bn. Units and currencies are left out: 18, $18 and 18 eggs are the same. A sign
touches its digit or currency.

A single comma before three digits separates thousands, a single point decimals; the other way round in a text that
has a number such as 3,14 or 1.234,56 and none such as 3.14. In brackets a comma separates: (3,4) is a pair.
"""

from __future__ import annotations

import re
import unicodedata
from fractions import Fraction

from reame.core.vote_final import final_part, plain
from reame.core.vote_joined import NUMBER, Expression, joined
from reame.core.vote_script import HANGUL, UNSPACED

_PACKED = re.compile(r"(?<=[(\[{])[-+]?\d+,[-+]?\d+(?=[)\]}])|(?<![\d.,])\d+(?:,[-+]?\d+){2,}(?![.,]?\d)")
_READABLE = (
    (re.compile(NUMBER), " "),
    (re.compile(r"\\[dtc]frac"), r"\\frac"),
    (re.compile(r"(?<=\d)\s{0,2}(?=\\frac)"), " "),
    (re.compile(r"\\frac\s*\{\s*([-+\u2212]?)\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}"), r"\1\2/\3"),
    (re.compile(r"\\frac\s?(\d)\s?(\d)(?!\d)"), r"\1/\2"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\[,!; ()\[\]]|\\(?:left|right)(?![a-z])|\\(?=[{}$%])"), ""),
    (re.compile(r"\^\{?\\circ\}?"), "\u00b0"),
    (re.compile(r"(?<=\d)\s?([AaPp])\.?[Mm]\b\.?"), r"\1m"),
)
"""LaTeX and hours as the expressions know them."""
_VULGAR = "".join(chr(code) for code in (*range(0xBC, 0xBF), *range(0x2150, 0x215F), 0x2189))
_SPACES = "\u00a0\u202f\u2009 "
_NUMBER = re.compile(
    rf"""
    (?<![^\W{UNSPACED}{HANGUL}])(?<!\^)(?<!\^[-+{{])(?<!\d[.,])
    (?:(?P<sign>(?<![\d)])[-\u2212+]|(?<!\d[ ])\b(?i:minus|negative)\s{{1,3}}|[负負]|マイナス)?
      (?P<currency>[$€£¥₹]\s?|(?<=[$€£¥₹]))?)?
    (?:
      (?P<whole>\d+\s)?(?<!/)(?P<over>\d+)\s?[/\u2044]\s?(?P<under>\d+)(?![\d/])
    | (?P<body>\d{{1,3}}(?:[{_SPACES}'\u2019]\d{{3}}(?!\d))+(?:[.,]\d+)?|\d+(?:[.,]\d+)*|[.]\d+)
      (?:\s?(?P<vulgar>[{_VULGAR}]))?
    | (?P<alone>[{_VULGAR}])
    )
    (?:[eE](?P<exponent>[-+\u2212]?\d{{1,3}})(?!\w)
     |\s?(?:\u00d7|x|\*|\\times|\\cdot)\s?10\^\{{?(?P<power>[-\u2212]?\d{{1,3}})\}}?)?
    (?:\s?(?P<percent>[%\uff05]|percent\b|per\s+cent\b|Prozent\b)
     |\s?(?P<scale>(?:thousand|million|billion|trillion|Tausend|Millionen|Million|Mio|Milliarden|Milliarde|Mrd)\b
       |[万萬亿億]))?
    (?(currency)(?:(?P<short>[kKmMB]|mn|bn)(?!\w|[^$\n]*\$(?!\s?\d)))?)
    """,
    re.VERBOSE,
)  # fmt: skip
_REASON = re.compile(
    r",?\s(?:since|because|weil|denn|porque)\s|,\s(?:as|car)\s|(?<=\d)\s\((?=[^()\n]*=)", re.IGNORECASE
)
"""Behind an answer: what is calculated there leads to it, or goes on from it."""
_GLUED = re.compile(r"[A-Za-z]{1,3}\d")
"""Behind what only begins like a number: 1920x1080, 3f2a."""
_SIMPLER = str.maketrans("\u00a0\u202f\u2009", "   ", "$€£¥₹")
_SCALES = {
    "thousand": 3, "tausend": 3, "million": 6, "millionen": 6, "mio": 6, "billion": 9, "milliarde": 9, "milliarden": 9,
    "mrd": 9, "trillion": 12, "k": 3, "m": 6, "mn": 6, "b": 9, "bn": 9, "万": 4, "萬": 4, "亿": 8, "億": 8,
}  # fmt: skip
_COMMA_DECIMAL = re.compile(r"(?<![\d.,])\d{1,3}(?:\.\d{3})+,\d+(?![\d.,]\d)|(?<![\d.,])\d+,\d{1,2}(?!\d|[.,]\d)")
_POINT_DECIMAL = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+\.\d+(?![\d.,]\d)|(?<![\d.,])\d+\.\d{1,2}(?!\d|[.,]\d)")
_MOST_DIGITS = 60


def final_number(text: str) -> str | None:
    """What a text comes to: the first expression after a sign of the final answer (behind its last equals sign, if it
    has one there), else the last of all; mostly a single number. None when there is none."""
    text = _readable(plain(text))
    comma = bool(_COMMA_DECIMAL.search(text)) and not _POINT_DECIMAL.search(text)
    part = final_part(text)
    for place in (_REASON.split(part, maxsplit=1)[0], part) if part else ():
        if found := expressions(place, comma=comma):
            return answer(found).value
    found = expressions(text, comma=comma)
    return found[-1].value if found else None


def answer(found: list[Expression]) -> Expression:
    """Of what stands after a sign of the final answer."""
    return next((each for each in found if each.is_result), found[0])


def expressions(text: str, *, comma: bool = False) -> list[Expression]:
    """All numbers of a text, those that are one answer together as one. `comma`: what is ambiguous is read with a
    decimal comma."""
    values: list[str] = []

    def mark(match: re.Match[str]) -> str:
        value = _value(match, comma=comma)
        if value is None or _GLUED.match(match.string, match.end()):
            return match[0]
        values.append(canonical(value))
        return NUMBER

    skeleton = _NUMBER.sub(mark, _readable(text)).translate(_SIMPLER)
    return joined(skeleton, values)


def canonical(value: Fraction) -> str:
    """As a decimal where there is one that ends, else as a fraction in lowest terms."""
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}" if places else sign + digits


def _readable(text: str) -> str:
    for pattern, written in _READABLE:
        text = pattern.sub(written, text)
    return _PACKED.sub(_unpacked, text)


def _unpacked(numbers: re.Match[str]) -> str:
    """With blanks behind the commas, unless they separate thousands."""
    parts = numbers[0].split(",")
    is_one = all(map(str.isdecimal, parts[1:])) and _is_grouped(parts, indian=True)
    return numbers[0] if is_one else ", ".join(parts)


def _value(match: re.Match[str], *, comma: bool) -> Fraction | None:
    if len(match[0]) > _MOST_DIGITS:
        return None
    value = _magnitude(match, comma=comma)
    if value is None:
        return None
    exponent = match["exponent"] or match["power"]
    if exponent:
        value *= Fraction(10) ** int(exponent.replace("\u2212", "-"))
    if match["percent"]:
        value /= 100
    if scale := match["scale"] or match["short"]:
        value *= 10 ** _SCALES[scale.lower()]
    return -value if match["sign"] and match["sign"][0] not in "+" else value


def _magnitude(match: re.Match[str], *, comma: bool) -> Fraction | None:
    if match["over"]:
        under = int(match["under"])
        return int(match["whole"] or 0) + Fraction(int(match["over"]), under) if under else None
    if match["alone"]:
        return _vulgar(match["alone"])
    value = _decimal(match["body"], comma=comma)
    return value + _vulgar(match["vulgar"]) if value is not None and match["vulgar"] else value


def _vulgar(char: str) -> Fraction:
    return Fraction(unicodedata.numeric(char)).limit_denominator(10)


def _decimal(body: str, *, comma: bool) -> Fraction | None:
    """The number behind digits and separators. None: a list, a date or a version."""
    body = re.sub(rf"[{_SPACES}'\u2019]", "", body)
    marks = re.findall(r"[.,]", body)
    if not marks:
        return Fraction(int(body))
    mark, num_kinds = marks[-1], len(set(marks))
    *head, tail = body.split(mark)
    if num_kinds == 1 and (len(marks) > 1 or _is_thousand(head[0], mark, tail, comma=comma)):
        if _is_grouped([*head, tail], indian=mark == ","):
            return Fraction(int("".join([*head, tail])))
        return None
    other = "." if mark == "," else ","
    groups = head[0].split(other)
    if len(head) > 1 or (num_kinds > 1 and not _is_grouped(groups, indian=other == ",")):
        return None
    return Fraction(f"{''.join(groups) or '0'}.{tail}")


def _is_thousand(head: str, mark: str, tail: str, *, comma: bool) -> bool:
    """Whether a single mark separates thousands: three digits follow it, and it is not the decimal mark here."""
    return len(tail) == 3 and 1 <= len(head) <= 3 and head != "0" and (mark == ",") != comma


def _is_grouped(parts: list[str], *, indian: bool) -> bool:
    """Whether these are groups of three digits, or the Indian ones of two and a last one of three."""
    first, *middle, last = parts
    if not 1 <= len(first) <= 3 or len(last) != 3:
        return False
    return all(len(part) == 3 for part in middle) or (indian and len(first) < 3 and all(len(p) == 2 for p in middle))
