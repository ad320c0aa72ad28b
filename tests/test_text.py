"""Text that may be sent: the same for every way of cutting the bytes, whole characters, no part of a stop."""

from __future__ import annotations

import codecs
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reame.core.text import TextStream


def deltas(pieces: list[bytes], stops: tuple[str, ...] = ()) -> tuple[list[str], bool]:
    stream = TextStream(stops)
    return [*(stream.push(piece) for piece in pieces), stream.finish()], stream.stopped


def cut(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(edges)]


def reference(data: bytes, stops: tuple[str, ...]) -> tuple[str, bool]:
    """By definition: decode all, drop a cut character, look at every prefix for a stop at its end."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    for end in range(1, len(text) + 1):
        complete = [len(stop) for stop in stops if stop and text[:end].endswith(stop)]
        if complete:
            return text[: end - max(complete)], True
    return text, False


cuts = st.lists(st.integers(0, 1000), max_size=12)
small_text = st.text("abé€😀", max_size=24)
small_stops = st.lists(st.text("abé€😀", max_size=5), max_size=4).map(tuple)


@given(st.binary(max_size=40), cuts)
def test_any_bytes_cut_anywhere_decode_as_a_whole(data: bytes, where: list[int]) -> None:
    parts, stopped = deltas(cut(data, where))
    whole = data.decode("utf-8", "replace")
    text = "".join(parts)
    assert not stopped
    # At most one U+FFFD for a character cut by the end is missing.
    assert text == whole or text + "�" == whole


@given(st.text(max_size=40), cuts)
def test_valid_text_cut_anywhere_comes_back_without_replacements(text: str, where: list[int]) -> None:
    parts, _ = deltas(cut(text.encode("utf-8", "surrogatepass"), where))
    assert "".join(parts) == text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


@given(small_text, small_stops, cuts)
def test_stops_equal_the_reference_for_every_cut(text: str, stops: tuple[str, ...], where: list[int]) -> None:
    data = text.encode()
    parts, stopped = deltas(cut(data, where), stops)
    assert ("".join(parts), stopped) == reference(data, stops)
    assert not any(stop in "".join(parts) for stop in stops if stop)


@given(st.binary(max_size=24), st.lists(st.text("a�\x00", min_size=1, max_size=3), max_size=3).map(tuple), cuts)
def test_stops_in_invalid_bytes_equal_the_reference(data: bytes, stops: tuple[str, ...], where: list[int]) -> None:
    parts, stopped = deltas(cut(data, where), stops)
    assert ("".join(parts), stopped) == reference(data, stops)


@given(small_text, small_stops)
def test_nothing_is_held_that_cannot_become_a_stop(text: str, stops: tuple[str, ...]) -> None:
    stream, sent = TextStream(stops), ""
    for i, char in enumerate(text):
        sent += stream.push(char.encode())
        if stream.stopped:
            return
        held = text[len(sent) : i + 1]
        assert held == "" or any(stop.startswith(held) for stop in stops)


@given(small_text, small_stops, st.binary(max_size=8))
def test_after_a_stop_nothing_more_comes(text: str, stops: tuple[str, ...], more: bytes) -> None:
    stream = TextStream(stops)
    stream.push(text.encode())
    if stream.stopped:
        assert stream.push(more) + stream.push(b"x") + stream.finish() == ""


CASES = [
    # stops, pieces, deltas (the last is finish's)
    ((), [b"\xf0\x9f", b"\x98", b"\x80!"], ["", "", "😀!", ""]),
    ((), [b"ok \xe2\x82"], ["ok ", ""]),
    ((), [b"\xe2\x82", b"A"], ["", "�A", ""]),
    (("STOP",), [b"a S", b"TO", b"P b"], ["a ", "", "", ""]),
    (("STOP",), [b"a S", b"TO", b"N"], ["a ", "", "STON", ""]),
    (("STOP",), [b"a STO"], ["a ", "STO"]),
    (("\n\n",), [b"x\n", b"y\n", b"\n", b"z"], ["x", "\ny", "", "", ""]),
    (("O P Q",), [b"N O", b" P", b" Q"], ["N ", "", "", ""]),
    (("aab",), [b"a", b"a", b"a", b"b"], ["", "", "a", "", ""]),
    (("abab!",), [b"abab", b"ab", b"!"], ["", "ab", "", ""]),
    (("abcd", "bc"), [b"a", b"b", b"c", b"d"], ["", "", "a", "", ""]),
    (("abcd", "bc"), [b"abcd"], ["a", ""]),
    (("bc", "abc"), [b"xabc"], ["x", ""]),
    (("€",), [b"1 \xe2", b"\x82", b"\xac 2"], ["1 ", "", "", ""]),
    (("", "x"), [b"ab", b"x"], ["ab", "", ""]),
]


@pytest.mark.parametrize(("stops", "pieces", "expected"), CASES)
def test_by_hand(stops: tuple[str, ...], pieces: list[bytes], expected: list[str]) -> None:
    assert deltas(pieces, stops)[0] == expected


@given(small_text, small_text, small_stops, cuts)
def test_what_is_not_told_leaves_the_rest(untold: str, text: str, stops: tuple[str, ...], where: list[int]) -> None:
    stream = TextStream(stops, num_untold=len(untold.encode()))
    told = "".join([*(stream.push(piece) for piece in cut((untold + text).encode(), where)), stream.finish()])
    assert (told, stream.stopped) == reference(text.encode(), stops)


@given(small_text, small_stops)
def test_it_says_which_stop_it_was(text: str, stops: tuple[str, ...]) -> None:
    stream = TextStream(stops)
    told = stream.push(text.encode())
    assert bool(stream.stop) == stream.stopped
    assert not stream.stop or text.startswith(told + stream.stop)


def reference_until(text: str, stops: tuple[str, ...], until: str) -> tuple[str, bool]:
    """By definition: what stands before `until` is text that is searched, and the rest is told as it is."""
    before = text.split(until)[0]
    told, stopped = reference(before.encode(), stops)
    return (told, True) if stopped else (text, False)


@given(small_text, small_stops, cuts, st.sampled_from(["€ab", "aab", "abab", "b"]))
def test_no_stop_is_looked_for_from_the_mark_on(
    text: str, stops: tuple[str, ...], where: list[int], until: str
) -> None:
    stream = TextStream(stops, until=until)
    told = "".join([*(stream.push(piece) for piece in cut(text.encode(), where)), stream.finish()])
    assert (told, stream.stopped) == reference_until(text, stops, until)
    assert not stream.holding


@pytest.mark.parametrize(
    ("stops", "pieces", "expected"),
    [
        (("<",), ["a ", "<", "b"], ["a ", "", "", ""]),
        (("<",), ["a ", "<call", "> <"], ["a ", "", "<call> <", ""]),
        (("<",), ["a ", "<"], ["a ", "", ""]),
        (("\n", "<call>"), ["<call>", "\n<call>"], ["<call>", "\n<call>", ""]),
        (("\n",), ["a\n", "<call>"], ["a", "", ""]),
        (("l>",), ["a <ca", "l>", "."], ["a ", "<ca", "", ""]),
        (("a <",), ["a ", "<cal", "l>"], ["", "", "a <call>", ""]),
        ((), ["a <", "call>"], ["a <", "call>", ""]),
    ],
)
def test_until_by_hand(stops: tuple[str, ...], pieces: list[str], expected: list[str]) -> None:
    stream = TextStream(stops, until="<call>")
    assert [*(stream.push(piece.encode()) for piece in pieces), stream.finish()] == expected
