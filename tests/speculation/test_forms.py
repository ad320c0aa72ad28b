"""Forms on texts never seen: what a careful typist would put next without knowing the content."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.speculation.forms import guess

LISTS = [
    ("1. Apples\n", "2. "),
    ("Here:\n\n9) nine\n", "10) "),
    ("  3. inner\n", "  4. "),
    ("1.2.3. deep\n", "1.2.4. "),
    ("1. One\n\n", "2. "),
    ("1. One\n\n2. Two\n\n", "3. "),
    ("1. One\n2. Two\n\n", ""),  # a list without blank lines ends with one
    ("1. A title\n   and its text, over two lines\n", "   "),
    ("1. A title\n   and its text\n\n", "2. "),
    ("- red\n", "- "),
    ("    * blue\n", "    * "),
    ("- [x] done\n", "- [ ] "),
    ("\u2022 green\n", "\u2022 "),
    ("a. first\n", "b. "),
    ("(c) third\n", "(d) "),
    ("Step 4: stir\n", "Step 5: "),
    ("Q3: why?\n", "Q4: "),
    ("**Part 2:** the end\n", "**Part 3:** "),
]
OTHERS = [
    ("| a | b | c |\n", "| --- | --- | --- |\n"),
    ("|a|b|\n", "|---|---|\n"),
    ("| a | b |\n| --- | --- |\n", "| "),
    ("| a | b |\n| --- | --- |\n| 1 | 2 |\n", "| "),
    ("| a | b |\n| --- | --- |\n| 1 | 2 |\n\n", ""),
    ("## 1. Intro\n\nText.\n\n## ", "2. "),
    ("### Chapter 3: x\ntext\n### ", "Chapter 4: "),
    ("# 2.1 A\n\n## 9. B\n\n# ", "2.2 "),
    ("text\n## ", ""),
    ("def f(x):\n", "    "),
    ("class A:\n  def f(self):\n", "    "),
    ("    return x\n", "    "),
    ("function f() {\n", "    "),
    ("\tif (x) {\n", "\t\t"),
    ("The following is true:\n", ""),
    ("Dear Sir,\n", ""),
    ("", ""),
    ("\n\n", ""),
]
JSON = [
    ('{"name"', ': "'),
    ('{"name":"Ann","age"', ':"'),
    ('{"name":"Ann"', ""),  # no style of commas yet
    ('{\n  "a": "x",\n  "b": "y"', ',\n  "'),
    ('{\n  "a": "x",\n  "b": "y",', '\n  "'),
    ('{"a": ["x", "y"', ', "'),
    ('{"a": {"b": 1}, "c": [1]', ', "'),
    ('Answer: {"a":', ' "'),
    ('{"a": "he said \\"', ""),
    ('{"a": "open, "'[:-1], ""),
    ('He said "yes"', ""),
    ("}", ""),
]


@pytest.mark.parametrize(("text", "expected"), LISTS + OTHERS + JSON)
def test_what_form_puts_next(text: str, expected: str) -> None:
    assert guess(text) == expected


@given(st.text(alphabet='1a2.)]}{[",:|-*# \n\t\\', max_size=80))
def test_any_text_is_met_with_a_short_line_or_nothing(text: str) -> None:
    found = guess(text)
    assert len(found) <= 2 * len(text) + 60


def test_a_long_table_of_words_costs_no_more_than_its_end() -> None:
    head = "x" * 100_000 + "\n"
    assert guess(head + "7. seven\n") == "8. "
