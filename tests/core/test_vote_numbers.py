"""The final number of an answer, in one spelling; several that are one answer together. Tables worked by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.core.vote_number import canonical, expressions, final_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("42", "42"),
        ("The answer is 42.", "42"),
        ("-5", "-5"),
        ("It falls to \u22125 degrees", "-5"),
        ("It is minus 5 degrees", "-5"),
        ("Minus 40 degrees", "-40"),
        ("Negative 12", "-12"),
        ("10 minus 2 = 8", "8"),
        ("+7", "7"),
        ("The answer is 7, since 7 * 3 = 21.", "7"),
        ("The answer is 6 because 6 x 7 = 42.", "6"),
        ("**Answer:** 5 (5 + 3 = 8)", "5"),
        ("The answer is 2 (x) = 8", "8"),
        ("It costs $1.5M", "1500000"),
        ("$2bn", "2000000000"),
        ("$5k.", "5000"),
        ("$18 m", "18"),
        ("US$1.5M", "1500000"),
        ("between $5k, and not $10k", "10000"),
        ("The answer is 6, as 2 * 3 = 6 and 6 * 2 = 12", "6"),
        ("The answer is 3 times as many, so 3 * 4 = 12.", "12"),
        ("The answer is 3 hours by car and 2 on foot = 5 hours", "5"),
        ("$3m$", "3"),
        ("$1.5eggs", "1.5"),
        (r"\boxed{\frac12}", "0.5"),
        ("Total:\n- 18", "18"),
        ("Total cost - 18 dollars", "18"),
        ("Answer: 18 - a good price", "18"),
        ("Answer: 18 - i.e. 9 each", "18"),
        (r"The answer is \( 18 \).", "18"),
        ("3.14", "3.14"),
        ("3,14", "3.14"),
        ("3,5 km", "3.5"),
        ("18.00", "18"),
        (".5", "0.5"),
        ("0,125", "0.125"),
        ("1,234", "1234"),
        ("(1,234)", "1234"),
        ("1.234", "1.234"),
        ("1,234.56", "1234.56"),
        ("1.234,56", "1234.56"),
        ("1.234.567", "1234567"),
        ("1,234,567", "1234567"),
        ("12,34,567", "1234567"),
        ("1 234 567,5", "1234567.5"),
        ("1\u202f234", "1234"),
        ("1'234.50", "1234.5"),
        ("Es kostet 2,50 Euro je Stück, zusammen 1.250 Euro", "1250"),
        ("It costs 2.50 each, 1,250 together", "1250"),
        ("3/4", "0.75"),
        ("1/3 of it", "1/3"),
        ("2/6", "1/3"),
        ("1 1/2 cups", "1.5"),
        ("½", "0.5"),
        ("2½ hours", "2.5"),
        ("⅓", "1/3"),
        (r"\frac{3}{8}", "0.375"),
        (r"\boxed{\frac{-3}{4}}", "-0.75"),
        (r"\boxed{-\frac{3}{4}}", "-0.75"),
        (r"\boxed{1\frac{1}{2}}", "1.5"),
        (r"\boxed{3\dfrac{1}{4}}", "3.25"),
        (r"\boxed{-3\tfrac{1}{4}}", "-3.25"),
        (r"\boxed{1{,}250}", "1250"),
        (r"\boxed{18\text{ cm}^2}", "18"),
        (r"\boxed{90^\circ}", "90"),
        (r"\boxed{x = 3}", "3"),
        (r"so we get $\boxed{\dfrac{1}{4}}$ in 2 steps", "0.25"),
        ("25%", "0.25"),
        ("25 %", "0.25"),
        ("25 percent", "0.25"),
        ("12,5 Prozent", "0.125"),
        (r"25\%", "0.25"),
        ("$18", "18"),
        ("-$18", "-18"),
        ("-$ 18", "-18"),
        ("$-18", "-18"),
        (r"\$18", "18"),
        ("$18.50 a day", "18.5"),
        ("18 €", "18"),
        ("18kg", "18"),
        ("18m", "18"),
        ("18 m\u00b2", "18"),
        ("18 cm^2", "18"),
        ("18 eggs", "18"),
        ("an 18-year-old", "18"),
        ("1.5 million", "1500000"),
        ("2 Mrd Euro", "2000000000"),
        ("6.02e2", "602"),
        ("1.5 \u00d7 10^3", "1500"),
        (r"1.5 \times 10^{-2}", "0.015"),
        ("3 x 10 = 30", "30"),
        ("16 - 3 - 4 = 9 eggs, 9 * 2 = 18 dollars", "18"),
        ("The answer is 3 + 4 = 7 apples, bought in 2 shops", "7"),
        ("The answer is 18 apples, bought in 2 shops", "18"),
        ("Answer: 18 eggs and he has 4 friends", "18"),
        ("Answer: (18, 2 of them broken)", "18"),
        ("Answer: 18 (6 + 12)", "18"),
        ("Answer: 45 minutes (0.75 hours)", "45"),
        ("Answer: 9 (12 - 3 = 9)", "9"),
        ("**Answer:** 18", "18"),
        ("Answer:\n\n18", "18"),
        ("<b>18</b>", "18"),
        ("=> 18", "18"),
        ("Die Antwort lautet 3,5.", "3.5"),
        ("We have 3.\n#### 1,200", "1200"),
        ("#### 18\nI hope that these 2 lines help.", "18"),
        ("#### Step 2: Multiply\nThat makes 40. The answer is 40.", "40"),
        ("#### Step 2: Multiply 5 by 8, which makes 40. The answer is 40.", "40"),
        ("#### 3. End\nIn the end there are 7", "7"),
        ("Answer: 4. Wait.\nAnswer: 5.", "5"),
        ("2x = 6, x = 3", "3"),
        ("答案是42。", "42"),
        ("答案\uff1a42\uff0c一共3步", "42"),
        ("一共18元", "18"),
        ("答えは18です", "18"),
        ("合計は1,234円です。", "1234"),
        ("答案是3万元", "30000"),
        ("气温是负5度", "-5"),
        ("총18원", "18"),
        ("उत्तर ४२ है", "42"),
        ("H2O has x2", None),
        ("nothing", None),
        ("", None),
        ("version 1.2.3", None),
        ("1/0", None),
        ("9" * 5000, None),
    ],
)  # fmt: skip
def test_the_final_number(text: str, number: str | None) -> None:
    assert final_number(text) == number


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("The answer is 10:30 AM", "10:30am"),
        ("The answer is 10:30 p.m.", "10:30pm"),
        ("The answer is 10 AM.", "10am"),
        ("12/25/2024", "12/25/2024"),
        ("The answer is 2024-01-15.", "2024-1-15"),
        ("The answer is 5 March 2024", "5march2024"),
        ("答案是2024年1月15日", "2024,1,15"),
        ("The answer is (3, 4)", "(3,4)"),
        ("x = \u00b13", "\u00b13"),
        ("The answer is $2k$.", "2k"),
        ("$2k + 1$", "2k+1"),
        (r"\boxed{\pm 3}", r"\pm3"),
        (r"\boxed{\left(3, \frac{\pi}{2}\right)}", r"(3,\frac{\pi}{2})"),
        (r"\boxed{(3,4)}", "(3,4)"),
        (r"\boxed{[3,4)}", "[3,4)"),
        (r"\boxed{\{1, 2\}}", "{1,2}"),
        ("The answer is 3 and 7", "3,7"),
        ("The answer is $3$ or $7$.", "3,7"),
        ("The answer is \\(3\\) or\u00a0\\(7\\).", "3,7"),
        ("The roots are 1, 2 and 3,5.", "1,2,3.5"),
        ("The roots are 3, 4.", "3,4"),
        ("1,2,3", "1,2,3"),
        ("The answer is x = 2 or x = -3.", "2,-3"),
        ("The answer is x = 3, y = 4", "3,4"),
        ("2 hours and 30 minutes", "2,30"),
        ("2 hours 30 minutes", "2,30"),
        ("18 apples and 2 pears", "18,2"),
        ("between 10-15", "10-15"),
        ("from 12 - 15", "12-15"),
        ("The ratio is 2 : 3", "2:3"),
        (r"\boxed{2\sqrt{3}}", r"2\sqrt{3}"),
        (r"The answer is $2 \sqrt{3}$.", r"2\sqrt{3}"),
        (r"\boxed{\dfrac{\sqrt{3}}{2}}", r"\frac{\sqrt{3}}{2}"),
        (r"\boxed{3\pi}", r"3\pi"),
        (r"\boxed{3x + 2}", "3x+2"),
        (r"\boxed{x^2 - 5}", "x^2-5"),
        ("The answer is 2^10", "2^10"),
        ("The answer is 2**3", "2**3"),
        ("The answer is 10\u00b2", "10\u00b2"),
        ("The answer is 5a", "5a"),
        ("The answer is x > 3", ">3"),
    ],
)
def test_numbers_that_are_one_answer(text: str, value: str) -> None:
    assert final_number(text) == value


def test_a_long_list_is_read_in_parts() -> None:
    """Its end is not looked for again from every number."""
    assert [len(each.value.split(",")) for each in expressions(", ".join(["1"] * 104) + " more")] == [51, 51, 1, 1]


def test_several_answers() -> None:
    assert [each.value for each in expressions("the 4th of 12, then 1, 2 and 3,5")] == ["4", "12", "1,2,3.5"]


@given(st.fractions(max_denominator=10_000))
def test_canonical_is_the_value_and_nothing_else(value: Fraction) -> None:
    assert Fraction(canonical(value)) == value


@given(st.integers(-(10**12), 10**12), st.integers(0, 99))
def test_one_number_in_every_spelling(whole: int, hundredths: int) -> None:
    point, comma = f"{whole:,}.{hundredths:02}", f"{whole:,}".replace(",", ".") + f",{hundredths:02}"
    plain, spaces = f"{whole}.{hundredths:02}", f"{whole:,}".replace(",", "\u202f") + f",{hundredths:02}"
    assert len({final_number(f"= {spelled} €") for spelled in (point, comma, plain, spaces)}) == 1
