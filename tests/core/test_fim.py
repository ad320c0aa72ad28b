"""Fill in the middle: the order of the parts, what is left out, and what a key stroke leaves as it was."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.core.fim import FimTokens, Infill, lay_out, read_marks

PLAIN = FimTokens(prefix=1000, suffix=1001, middle=1002, texts=("<P>", "<S>", "<M>"))
FILES = FimTokens(prefix=1000, suffix=1001, middle=1002, repository=1003, file=1004, texts=("<P>", "<S>", "<M>"))
NAMES = {1000: "<P>", 1001: "<S>", 1002: "<M>", 1003: "<R>", 1004: "<F>", 7777: "<B>"}


def tokenize(text: str, *, parse_special: bool) -> list[int]:
    """A token a character; the mark of a special one is a `!` here."""
    return [2000 if parse_special and char == "!" else ord(char) for char in text]


def shown(infill: Infill, fim: FimTokens = PLAIN, *, room: int = 10_000, first: tuple[int, ...] = ()) -> str:
    layout = lay_out(infill, fim, tokenize, room=room, first=first)
    return "".join(NAMES.get(token) or chr(token) for token in layout.tokens)


def test_the_line_that_is_typed_is_the_middles_beginning() -> None:
    assert shown(Infill(prefix="a\nb\n  re", suffix="\nz")) == "<P>a\nb\n<S>\nz<M>  re"
    assert shown(Infill(prefix="a\n", suffix="")) == "<P>a\n<S><M>"
    assert shown(Infill(prefix="re", suffix="z"), first=(7777,)) == "<B><P><S>z<M>re"
    assert lay_out(Infill(prefix="a\nxyz", suffix=""), PLAIN, tokenize, room=99).typed == 3


@pytest.mark.parametrize(
    ("lines", "above"),
    [
        (1, 1), (7, 7), (8, 8), (9, 8), (15, 8), (16, 16), (23, 16), (31, 24), (32, 32), (40, 32), (63, 32), (64, 64),
    ],
)  # fmt: skip
def test_where_lines_are_typed_the_prefix_stays(lines: int, above: int) -> None:
    text = "".join(f"{number}\n" for number in range(lines)) + "ty"
    start = sum(len(f"{number}\n") for number in range(above))
    assert shown(Infill(prefix=text, suffix="z")) == f"<P>{text[:start]}<S>z<M>{text[start:]}"


def test_long_lines_are_fewer() -> None:
    text = "".join(f"{number:040}\n" for number in range(63)) + "ty"
    assert lay_out(Infill(prefix=text, suffix="z"), PLAIN, tokenize, room=9000).typed == 31 * 41 + 2
    assert lay_out(Infill(prefix=text, suffix="z"), PLAIN, tokenize, room=4000).typed == 7 * 41 + 2


def test_other_files_come_first() -> None:
    infill = Infill(prefix="x", suffix="y", extra=(("a.py", "AA"), ("b.py", "BB")))
    assert shown(infill, FILES) == "<R>project\n<F>a.py\nAA<F>b.py\nBB<F>current\n<P><S>y<M>x"
    assert shown(infill, PLAIN) == "\n\nAA\n\n\nBB\n<P><S>y<M>x"


def test_the_users_text_is_never_a_control_token() -> None:
    assert 2000 not in lay_out(Infill(prefix="!\n!", suffix="!", extra=(("!", "!"),)), FILES, tokenize, room=99).tokens
    assert lay_out(Infill(prefix="!", suffix="", parse_special=True), PLAIN, tokenize, room=99).tokens[-1] == 2000


def test_what_does_not_fit_is_left_out_farthest_first() -> None:
    lines = "".join(f"{number:04}\n" for number in range(100))
    infill = Infill(prefix=lines + "typed", suffix="s" * 300, extra=(("a", "A" * 120), ("b", "B" * 120)), cut=True)
    whole = lay_out(infill, PLAIN, tokenize, room=2000)
    assert not whole.is_cut
    layout = lay_out(infill, PLAIN, tokenize, room=1060)
    text = "".join(NAMES.get(token) or chr(token) for token in layout.tokens)
    assert layout.is_cut
    assert "A" not in text
    assert "B" * 120 in text
    assert all(line in text for line in lines.splitlines())
    text = shown(infill, room=400)
    assert len(lay_out(infill, PLAIN, tokenize, room=400).tokens) <= 400
    assert "B" not in text
    assert "0095\n<S>sss" in text
    assert "<M>0096\n" in text
    assert "0000" not in text


def test_without_cut_all_of_it_stays() -> None:
    layout = lay_out(Infill(prefix="x" * 500, suffix="y" * 500), PLAIN, tokenize, room=10)
    assert (len(layout.tokens), layout.is_cut) == (1003, False)


@given(st.text("ab\n", max_size=300), st.text("yz\n", max_size=300), st.integers(20, 400))
def test_it_fits_whenever_the_line_does(prefix: str, suffix: str, room: int) -> None:
    layout = lay_out(Infill(prefix=prefix, suffix=suffix, cut=True), PLAIN, tokenize, room=room)
    assert len(layout.tokens) <= max(room, 3 + layout.typed)
    assert layout.is_cut == (len(prefix) + len(suffix) + 3 > room)


def test_a_key_stroke_changes_the_end_only() -> None:
    """Also when much is cut off: what was computed for one key stroke is good for nearly all of the next."""
    above, line, below = "some line\n" * 200, "lines\nthat somebody\n  types", "\n" + "rest\n" * 80
    for room in (10_000, 900):
        prompts = [
            lay_out(Infill(prefix=above + line[:end], suffix=below, cut=True), PLAIN, tokenize, room=room).tokens
            for end in range(len(line))
        ]
        reused = [before == after[: len(before)] for before, after in pairwise(prompts)]
        assert reused.count(False) <= 2


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("<P>a<S>b<M>", ("", "a", "b")),
        ("repo<P>a\nb<S><M>", ("repo", "a\nb", "")),
        ("<P>a<S>b", None),
        ("<P>a<M>", None),
        ("a<S>b<M>", None),
        ("<P>a<P>b<S>c<M>", None),
        ("<P>a<S>b<M>c<M>", None),
        ("", None),
    ],
)
def test_marks(text: str, read: object) -> None:
    assert read_marks(text, PLAIN) == read


def test_marks_with_blanks_are_left_alone() -> None:
    blank = FimTokens(prefix=1, suffix=2, middle=3, texts=(" <P>", " <S>", " <M>"))
    assert read_marks(" <P> a <S>b <M>", blank) is None
