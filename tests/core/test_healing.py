"""Token healing: which tokens are taken back, and what may be drawn until they are spelled again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reame.core.healing import MOST_TAKEN_BACK, Healing, Pieces

WORDS = [b"", b"p", b"r", b"i", b"n", b"t", b"(", b"pri", b"nt", b"print", b"println"]
WORDS += [b" ", b"  ", b"    ", b" x", b"<end>"]
TOKEN = {word: token for token, word in enumerate(WORDS)}
PIECES = Pieces(WORDS.__getitem__, len(WORDS), ends={TOKEN[b"<end>"]})


def tokens(*words: bytes) -> list[int]:
    return [TOKEN[word] for word in words]


def allowed(rest: bytes) -> set[bytes]:
    return {WORDS[token] for token in PIECES.beginning(rest).nonzero()[0]}


def test_the_longest_part_of_a_token_is_taken_back() -> None:
    assert PIECES.take_back(tokens(b"(", b"pri")) == (1, b"pri")
    assert PIECES.take_back(tokens(b"(", b"p", b"r")) == (2, b"pr")
    assert PIECES.take_back(tokens(b"(", b"pri", b"n")) == (2, b"prin")
    assert PIECES.take_back(tokens(b"(", b"print")) == (1, b"print")
    assert PIECES.take_back(tokens(b"x"[:0], b"p", b"r", b"i", b"n")) == (1, b"n")  # `prin` would be four of them


def test_what_ends_where_a_token_ends_stays() -> None:
    for ending in ([], tokens(b"println"), tokens(b"pri", b"("), tokens(b"pri", b"")):
        assert PIECES.take_back(ending) == (0, b"")


def test_a_control_token_is_no_text() -> None:
    assert PIECES.take_back(tokens(b"", b"i")) == (0, b"")
    assert PIECES.take_back(tokens(b"p", b"", b"r")) == (0, b"")
    assert b"<end>" not in allowed(b"<")


def test_beginnings_and_what_goes_on_may_come() -> None:
    assert allowed(b"pri") == {b"p", b"pri", b"print", b"println"}
    assert allowed(b"print") == {b"p", b"pri", b"print", b"println"}
    assert allowed(b"   ") == {b" ", b"  ", b"    "}
    assert allowed(b"x") == set()


def test_it_is_over_once_all_is_spelled() -> None:
    healing = Healing(PIECES, b"prin")
    for piece, over in ((b"pri", False), (b"nt", True)):
        assert not healing.is_over
        assert WORDS[TOKEN[piece]] in {WORDS[t] for t in healing.mask().nonzero()[0]}
        healing.consume(piece)
        assert healing.is_over == over


@given(st.lists(st.sampled_from(range(1, len(WORDS) - 1)), max_size=6), st.randoms())
def test_any_allowed_draws_spell_what_was_taken_back(prompt: list[int], random: st.randoms) -> None:  # type: ignore[valid-type]
    number, spelled = PIECES.take_back(prompt)
    assert number <= MOST_TAKEN_BACK
    assert spelled == b"".join(WORDS[token] for token in prompt[len(prompt) - number :])
    healing, text = Healing(PIECES, spelled), b""
    while not healing.is_over:
        token = random.choice(healing.mask().nonzero()[0])  # type: ignore[attr-defined]
        healing.consume(WORDS[token])
        text += WORDS[token]
    assert text.startswith(spelled)
