"""One request, one text: streamed or whole, alone or in a crowd, now or again. Exact equality, on the real model."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import trio
from streams import stream
from talking import CHAT, COMPLETIONS, ENDLESS, answer, ask, say, text_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from httpx2 import AsyncClient

MANY_BYTES = "Repeat exactly: 日本語 ďábelské 👩‍👩‍👧‍👦 ñ 🇮🇹 日本語 ďábelské 👩‍👩‍👧‍👦 ñ 🇮🇹 日本語"
WORDS = ["river", "stone", "bread", "clock", "winter", "letter", "garden", "copper", "engine", "silver"]


def mixed(count: int, seed: int) -> list[dict[str, Any]]:
    """Prompts of 5 to 45 words, every other one behind a common beginning; half greedy, half drawn with a seed."""
    random = Random(seed)
    stem = " ".join(random.choices(WORDS, k=25))
    bodies = []
    for i in range(count):
        text = f"{stem if i % 2 else ''} {' '.join(random.choices(WORDS, k=random.randint(5, 20)))}"
        heat = {"temperature": 0} if i % 4 < 2 else {"temperature": 0.9, "seed": i}
        bodies.append(ask(text, 8, **heat))
    return bodies


async def at_once(client: AsyncClient, bodies: Sequence[dict[str, Any]]) -> list[str]:
    """Every body asked at the same time, every other one as a stream."""
    texts = [""] * len(bodies)

    async def one(place: int, body: dict[str, Any]) -> None:
        if place % 2:
            texts[place] = (await stream(client, COMPLETIONS, body)).texts[0]
        else:
            texts[place] = await text_of(client, COMPLETIONS, body)

    async with trio.open_nursery() as nursery:
        for place, body in enumerate(bodies):
            nursery.start_soon(one, place, body)
    return texts


async def test_eight_at_once_get_what_each_gets_alone(client: AsyncClient) -> None:
    """Some cold in a crowd, then warm alone; others cold alone, then warm in a crowd."""
    bodies = mixed(8, seed=1)
    crowd = await at_once(client, bodies)
    assert [await text_of(client, COMPLETIONS, body) for body in bodies] == crowd
    assert len(set(crowd)) > 4
    others = mixed(8, seed=2)
    alone = [await text_of(client, COMPLETIONS, body) for body in others]
    assert await at_once(client, others) == alone


async def test_streamed_and_whole_are_the_same_in_every_respect(client: AsyncClient) -> None:
    for path, body in (
        (CHAT, say("Write a haiku about rain.", 12)),
        (CHAT, say("Tell me a joke.", 12, temperature=1.2, seed=5, n=3)),
        (COMPLETIONS, ask(["One, two,", "Roses are"], 8, n=2, temperature=0.7, seed=9, echo=True)),
    ):
        whole = await answer(client, path, body)
        told = await stream(client, path, body | {"stream_options": {"include_usage": True}})
        texts = [choice["text"] if path == COMPLETIONS else choice["message"]["content"] for choice in whole["choices"]]
        assert [told.texts[index] for index in range(len(texts))] == texts
        assert [told.reasons[index] for index in range(len(texts))] == [c["finish_reason"] for c in whole["choices"]]
        counts = told.events[-1]["usage"]
        assert counts["completion_tokens"] == whole["usage"]["completion_tokens"]
        assert counts["prompt_tokens"] == whole["usage"]["prompt_tokens"]


async def test_a_seed_gives_its_text_again(client: AsyncClient) -> None:
    ask_story = partial(say, "Tell me a story.", 12, temperature=1.0)
    first = await text_of(client, CHAT, ask_story(seed=7))
    assert await text_of(client, CHAT, ask_story(seed=7)) == first
    assert await text_of(client, CHAT, ask_story(seed=8)) != first


async def test_four_greedy_choices_are_one_text(client: AsyncClient) -> None:
    greedy = await answer(client, CHAT, say("Count to ten.", 8, n=4))
    assert len({choice["message"]["content"] for choice in greedy["choices"]}) == 1
    drawn = [await answer(client, CHAT, say("Count to ten.", 8, n=4, temperature=1.2, seed=7)) for _ in range(2)]
    texts = [[choice["message"]["content"] for choice in each["choices"]] for each in drawn]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1


async def test_a_limit_in_the_middle_of_a_character(client: AsyncClient) -> None:
    """Every length of the answer ends it in a whole character, and is a beginning of the next one."""
    body = ask(MANY_BYTES, logit_bias=ENDLESS)
    texts = [await text_of(client, COMPLETIONS, body | {"max_tokens": length}) for length in range(1, 13)]
    assert any(len(text.encode()) > len(text) for text in texts), "the model repeats nothing of it"
    assert len(set(texts)) < 12, "no limit cut a character"
    for length, (text, longer) in enumerate(pairwise(texts), 1):
        assert longer.startswith(text)
        assert "\ufffd" not in text
        if length % 3 == 0:
            told = await stream(client, COMPLETIONS, body | {"max_tokens": length, "n": length // 3})
            assert set(told.texts.values()) <= {text}


STOPS = [["P Q R"], [" L P", "never"], ["nswer", "wer is:"], ["Q R X Y"]]
"""Of several tokens; two, of which one comes; in the middle of a token, two that overlap; one that only begins."""


@pytest.mark.parametrize("stops", STOPS)
async def test_no_part_of_a_stop_string_is_told(client: AsyncClient, stops: list[str]) -> None:
    body = ask("A B C D E F G H I J K", 16, logit_bias=ENDLESS)
    free = await text_of(client, COMPLETIONS, body)
    assert "L P Q R S" in free
    assert "answer is:" in free
    ends = [free.index(stop) for stop in stops if stop in free]
    assert len(ends) == {"never": 1, "Q R X Y": 0}.get(stops[-1], len(stops))
    told = await stream(client, COMPLETIONS, body | {"stop": stops})
    assert told.texts[0] == free[: min(ends, default=len(free))]
    assert told.reasons[0] == ("stop" if ends else "length")
    assert await text_of(client, COMPLETIONS, body | {"stop": stops}) == told.texts[0]


async def test_an_answer_that_ends_by_itself(client: AsyncClient) -> None:
    """The end of the assistant's turn ends it, and is no part of its text; nor are other special tokens."""
    body = say("Say hello.", 100)
    whole = await answer(client, CHAT, body)
    told = await stream(client, CHAT, body)
    (choice,) = whole["choices"]
    assert (choice["finish_reason"], told.reasons[0]) == ("stop", "stop")
    assert choice["message"]["content"] == told.texts[0]
    assert whole["usage"]["completion_tokens"] < 100
    assert "<|" not in told.texts[0]
    assert {event["choices"][0]["finish_reason"] for event in told.events[:-1]} == {None}
