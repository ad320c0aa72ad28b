"""Echo with logprobs as evaluation programs use it, against the whole program: the numbers are those of direct scoring,
warm and cold, and the offsets are those of the text."""

from __future__ import annotations

import json
from math import isclose
from typing import TYPE_CHECKING, Any

import pytest
from talking import COMPLETIONS, answer, ask, say

if TYPE_CHECKING:
    from httpx2 import AsyncClient

TEXT = "The capital of France is Paris"


async def rated(client: AsyncClient, prompt: str | list[int], **more: Any) -> dict[str, Any]:
    body = ask(prompt, 0, echo=True, logprobs=5) | more
    (choice,) = (await answer(client, COMPLETIONS, body))["choices"]
    found: dict[str, Any] = choice
    return found


def check_shape(choice: dict[str, Any], text: str) -> None:
    told = choice["logprobs"]
    assert choice["text"] == text
    assert len({len(values) for values in told.values()}) == 1
    assert (told["token_logprobs"][0], told["top_logprobs"][0], told["text_offset"][0]) == (None, None, 0)
    assert all(value < 0 for value in told["token_logprobs"][1:])
    for token, offset, rivals in list(zip(told["tokens"], told["text_offset"], told["top_logprobs"], strict=True))[1:]:
        if not token.startswith("bytes:"):
            assert text[offset : offset + len(token)] == token
        assert token in rivals
        assert len(rivals) in (5, 6)


@pytest.mark.parametrize("text", [TEXT, "Il perché è 日本語, 👩‍👩‍👧 ñ", "<|im_start|>user\nhi<|im_end|>"])
async def test_offsets_index_the_text(client: AsyncClient, text: str) -> None:
    choice = await rated(client, text)
    check_shape(choice, text)
    assert choice["finish_reason"] == "length"
    assert (await rated(client, text, logprobs=0))["logprobs"]["tokens"] == choice["logprobs"]["tokens"]


async def test_the_numbers_are_those_of_direct_scoring(client: AsyncClient) -> None:
    """Each token is the answer, once, to what precedes it: the same probability that the chat of logprobs shows."""
    choice = await rated(client, TEXT)
    tokens: list[int] = (await answer(client, "/tokenize", {"content": TEXT}))["tokens"]
    assert len(tokens) == len(choice["logprobs"]["tokens"])
    for place in range(1, len(tokens)):
        forced = ask(tokens[:place], 1, logprobs=0, logit_bias={str(tokens[place]): 100})
        (direct,) = (await answer(client, COMPLETIONS, forced))["choices"]
        assert direct["logprobs"]["tokens"] == [choice["logprobs"]["tokens"][place]]
        told = choice["logprobs"]["token_logprobs"][place]
        assert isclose(direct["logprobs"]["token_logprobs"][0], told, abs_tol=1e-6)


async def test_warm_and_cold_and_as_ids_they_are_the_same(client: AsyncClient) -> None:
    text = "Numbers that nobody has asked for before: " + ", ".join(map(str, range(200, 320)))
    cold = await rated(client, text)
    await answer(client, COMPLETIONS, ask(text, 4))
    warm = await answer(client, COMPLETIONS, ask(text, 0, echo=True, logprobs=5))
    assert warm["choices"] == [cold]
    assert warm["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    tokens = (await answer(client, "/tokenize", {"content": text}))["tokens"]
    assert len(tokens) > 256  # more than one step may give logits
    assert await rated(client, tokens) == cold
    check_shape(cold, text)


async def test_a_generated_token_follows_the_rated_ones(client: AsyncClient) -> None:
    prompt = "The capital of France is"
    alone = await rated(client, prompt)
    more = await rated(client, prompt, max_tokens=1)
    told = more["logprobs"]
    assert more["text"] == prompt + told["tokens"][-1] == prompt + " Paris"
    assert {name: values[:-1] for name, values in told.items()} == alone["logprobs"]
    (plain,) = (await answer(client, COMPLETIONS, ask(prompt, 1, logprobs=5)))["choices"]
    assert plain["logprobs"]["token_logprobs"] == told["token_logprobs"][-1:]


async def test_streamed_it_is_the_same(client: AsyncClient) -> None:
    body = ask([TEXT, "Rome"], 2, echo=True, logprobs=1, n=2)
    whole = (await answer(client, COMPLETIONS, body))["choices"]
    texts = [""] * 4
    told: list[dict[str, list[Any]]] = [{name: [] for name in whole[0]["logprobs"]} for _ in range(4)]
    response = await client.post(COMPLETIONS, json=body | {"stream": True})
    for line in response.text.split("\n\n"):
        if not line.startswith("data: {"):
            continue
        (choice,) = json.loads(line.removeprefix("data: "))["choices"]
        texts[choice["index"]] += choice["text"]
        for name, values in (choice["logprobs"] or {}).items():
            told[choice["index"]][name] += values
    assert texts == [choice["text"] for choice in whole]
    assert told == [choice["logprobs"] for choice in whole]
    assert (texts[0], told[0]) == (texts[1], told[1])


async def test_several_texts_are_compared(client: AsyncClient) -> None:
    """What a multiple choice does: the sum over the last words decides."""
    question = "The capital of France is"
    sums = []
    for end in (" Paris", " a banana", " Tuesday"):
        choice = await rated(client, question + end)
        first = next(i for i, offset in enumerate(choice["logprobs"]["text_offset"]) if offset >= len(question))
        sums.append(sum(choice["logprobs"]["token_logprobs"][first:]))
    assert sums[0] == max(sums)


async def test_nothing_is_generated_without_echo(client: AsyncClient) -> None:
    (choice,) = (got := await answer(client, COMPLETIONS, ask("One two three four five", 0)))["choices"]
    assert (choice["text"], choice["finish_reason"], got["usage"]["completion_tokens"]) == ("", "length", 0)
    assert (await client.post("/v1/chat/completions", json=say("hi", 0))).status_code == 400
