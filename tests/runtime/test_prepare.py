"""From any prompt to tokens: gaps that are filled in, and prompts that end inside a word."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from serving import GREEDY, call_of, config_of, prompt_of, read, serving

from reame.core.chat import ChatTemplate
from reame.core.constraint import Constraint
from reame.core.events import Finish, Usage
from reame.core.fim import FimTokens, Infill
from reame.core.healing import Pieces
from reame.core.request import Call, Chat, Request
from reame.core.sequence import Sequence
from reame.engine.base import ModelInfo
from reame.errors import RequestError
from reame.runtime.preparing import Preparing
from reame.runtime.prompts import Prepared, ServedModel, prepare
from reame.runtime.replies import Replies
from reame.runtime.requests import requests_of

if TYPE_CHECKING:
    import trio.testing

    from reame.memory.answer_format import Answer

WORDS = ["<bos>", "<P>", "<S>", "<M>", *"abcdefprint( \n", "pri", "print"]
FIM = FimTokens(prefix=1, suffix=2, middle=3, texts=("<P>", "<S>", "<M>"))


class Words:
    """The longest word comes first; `<...>` are marks when they may be."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        tokens = [0] if add_special else []
        while text:
            known = [w for w in WORDS if text.startswith(w) and (parse_special or w[0] != "<")]
            word = max(known, key=len, default=" ")
            tokens.append(WORDS.index(word))
            text = text[len(word) if known else 1 :]
        return tokens

    def piece(self, token: int) -> bytes:
        return b"" if token < 4 else self.spelled(token)

    def spelled(self, token: int) -> bytes:
        return WORDS[token].encode()


def model(*, fim: FimTokens | None = FIM, context: int = 1000) -> ServedModel:
    info = ModelInfo(
        name="", vocab_size=len(WORDS), context_trained=context, eog_tokens=frozenset({0}), bos_token=0, adds_bos=True,
        bos_text="<bos>", fim=fim,
    )  # fmt: skip
    pieces = Pieces(Words().piece, len(WORDS), ends={0})
    return ServedModel(
        id="", context=context, info=info, fingerprint="", vocabulary=Words(), template=None, pieces=pieces
    )


def prepared(prompt: Any, **call: Any) -> Prepared:
    return prepare(model(), prompt, Call(prompts=(prompt,), **call))


def shown(prompt: Any, **call: Any) -> str:
    return "".join(WORDS[token] for token in prepared(prompt, **call).tokens)


def test_a_gap_whose_line_ends_inside_a_word() -> None:
    got = prepared(Infill(prefix="ab\n(pri", suffix="c"))
    assert "".join(WORDS[token] for token in got.tokens) == "<bos><P>ab\n<S>c<M>("
    assert (got.healed, got.is_cut) == (b"pri", False)


def test_the_models_own_form_is_the_same_gap() -> None:
    text = "<P>ab\n(pri<S>c<M>"
    assert prepared(text) == prepared(Infill(prefix="ab\n(pri", suffix="c"))
    assert shown(text, heal=False) == "<bos>" + text
    assert shown(text, logprobs=0, prompt_logprobs=True) == "<bos>" + text
    assert shown("<bos>" + text).count("<bos>") == 1


def test_users_text_in_a_gap_is_no_mark() -> None:
    assert shown(Infill(prefix="<M>", suffix="<P>")).count("<") == 4


@pytest.mark.parametrize(
    ("call", "healed"),
    [
        ({}, b""),
        ({"heal": True}, b"pri"),
        ({"heal": True, "logprobs": 0}, b""),
        ({"heal": True, "logprobs": 0, "ids_only": True}, b"pri"),
        ({"heal": True, "constraint": Constraint("json_object")}, b""),
        ({"heal": False}, b""),
    ],
)
def test_a_text_is_healed_when_asked_for(call: dict[str, Any], healed: bytes) -> None:
    got = prepared("(pri", **call)
    assert got.healed == healed
    assert WORDS[got.tokens[-1]] == ("(" if healed else "pri")


def test_gaps_that_must_not_be_healed() -> None:
    gap = Infill(prefix="pri", suffix="")
    for call in ({"heal": False}, {"logprobs": 0}, {"constraint": Constraint("json_object")}):
        assert shown(gap, **call) == "<bos><P><S><M>pri"


@pytest.mark.parametrize(
    ("limit", "most", "most_again"), [(1, 1, 3), (96, 96, 3), (98, 98, 1), (99, 99, 0), (500, 99, 0), (0, 0, 0)]
)
async def test_what_is_spelled_again_is_no_part_of_the_limit_but_of_the_context(
    limit: int, most: int, most_again: int
) -> None:
    """A token has one byte at least."""
    call = Call(prompts=("(pri",), max_tokens=limit)
    taken_back = Prepared(tokens=(5,), healed=b"pri")
    (request,) = requests_of(config_of(), model(context=100), call, [taken_back], None, key="", namespace="")
    assert (request.max_tokens, request.most_again) == (most, most_again)
    assert request.healed == (b"pri" if limit else b"")
    assert Sequence.new(request, 0).max_cells < 100


@pytest.mark.parametrize(
    ("completion", "num_again", "kept"), [(5, 2, False), (6, 2, True), (4, 0, True), (3, 0, False)]
)
def test_an_answer_that_was_cut_before_its_own_end_is_not_kept(completion: int, num_again: int, kept: bool) -> None:
    call = Call(prompts=("(pri",), max_tokens=4)
    replies = Replies(call, [Request(id="r-0", prompt=(5,), max_tokens=4)], None)  # type: ignore[arg-type]
    answers: list[Answer] = []
    replies.keep_answer(0, answers.append)
    usage = Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=completion)
    replies._gather(0, Finish(reason="length", usage=usage, num_again=num_again))
    assert bool(answers) == kept


MESSAGE = {"role": "user", "content": ""}


@pytest.mark.parametrize(
    ("prompt", "inline"),
    [
        ("a" * 4096, True),
        ("a" * 4097, False),
        (Chat(messages=(MESSAGE | {"content": "a" * 4000},)), True),
        (Chat(messages=(MESSAGE | {"content": "a" * 4096},)), False),
        (Chat(messages=(MESSAGE,) * 30_000), False),
        (Chat(messages=(MESSAGE | {"reasoning_content": "a" * 4096},)), False),
        (Chat(messages=(MESSAGE | {"name": "a" * 4096},)), False),
        (Chat(messages=(MESSAGE | {"tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},)), False),
        (Infill(prefix="", suffix="a" * 4096, extra=()), True),
        (Infill(prefix="", suffix="", extra=(("a" * 4096, "b"),)), False),
        (Infill(prefix="", suffix="", extra=(("a", "b"),) * 256), False),
    ],
    ids=range(11),
)
async def test_what_takes_long_is_prepared_in_a_thread(prompt: Any, inline: bool) -> None:
    threads: list[bool] = []

    class Noting(Words):
        def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
            threads.append(threading.current_thread() is threading.main_thread())
            return super().tokenize(text[:10], add_special=add_special, parse_special=parse_special)

    served = evolve(model(), vocabulary=Noting(), template=ChatTemplate("{{ messages | length }}"))
    await Preparing().prompt(served, prompt, Call(prompts=(prompt,)))
    assert set(threads) == {inline}


def test_token_ids_stay_as_they_are() -> None:
    assert prepared((5, 6), heal=True) == Prepared(tokens=(5, 6))


def test_a_model_without_marks_says_so() -> None:
    for cut, param in ((False, "suffix"), (True, "input_suffix")):
        gap = Infill(prefix="a", suffix="b", cut=cut)
        with pytest.raises(RequestError, match="fill in the middle") as caught:
            prepare(model(fim=None), gap, Call(prompts=(gap,)))
        assert (caught.value.param, caught.value.code) == (param, "no_fill_in_the_middle")
    assert prepare(model(fim=None), "<P>a<S>b<M>", Call(prompts=("x",))).healed == b""


def test_what_does_not_fit_leaves_room_for_the_answer() -> None:
    gap = Infill(prefix="ab\n" * 100, suffix="c" * 100, cut=True)
    for max_tokens, most in ((None, 74), (10, 89), (0, 74)):
        got = prepare(model(context=100), gap, Call(prompts=(gap,), max_tokens=max_tokens))
        assert got.is_cut
        assert len(got.tokens) <= most


class TestKeyStrokes:
    """The fake engine's marks are tokens as any other."""

    async def test_each_one_costs_what_it_adds(self, autojump_clock: trio.testing.MockClock) -> None:
        line = "for each in items"
        async with serving(config_of(context=400, rows=16)) as up:
            assert up.intake.model is not None
            info = evolve(up.intake.model.info, fim=FimTokens(prefix=5, suffix=6, middle=7))
            up.intake.model = evolve(up.intake.model, info=info)
            costs = []
            for end in range(1, len(line) + 1):
                gap = Infill(prefix="x = 1\n" * 20 + line[:end], suffix="\n" + "y = 2\n" * 20)
                before = up.num_rows
                call = Call(prompts=(gap,), sampling=GREEDY, max_tokens=1)
                async with up.ask(call) as replies:
                    await replies.__anext__()
                await up.idle()
                costs.append(up.num_rows - before)
        assert costs[0] > 200
        assert set(costs[1:]) == {1}


async def test_nothing_is_generated_for_no_tokens(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(config_of()) as up:
        call = evolve(call_of(prompt_of(9, 4)), max_tokens=0)
        async with up.ask(call) as replies:
            answer = await read(replies)
    assert answer.texts == [""]
    assert (answer.finishes[0].reason, answer.finishes[0].usage.completion_tokens) == ("length", 0)
    assert up.num_rows == 8
