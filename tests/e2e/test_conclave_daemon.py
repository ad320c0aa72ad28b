"""Elections on a real daemon with a real model, beside everything else it does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from streams import stream, streaming
from talking import CHAT, COMPLETIONS, ENDLESS, answer, ask, say, text_of, tokens, until_busy, until_idle

if TYPE_CHECKING:
    from httpx2 import AsyncClient

pytestmark = pytest.mark.model

SUM = say("What is 7 plus 5? Answer with the number only.", 24, temperature=0.9, seed=5, best_of=5)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 1.1, "seed": 3}])
async def test_candidate_0_is_the_plain_request(client: AsyncClient, sampling: dict[str, Any]) -> None:
    """All are cut, so nobody votes, and the first one is given."""
    body = ask("Once upon a time", 12, logit_bias=ENDLESS, **sampling)
    best = await answer(client, COMPLETIONS, body | {"best_of": 4})
    assert best["choices"][0]["text"] == await text_of(client, COMPLETIONS, body)
    assert best["choices"][0]["finish_reason"] == "length"
    conclave = best["reame"]["conclave"]
    assert (conclave["agreement"], conclave["silent"], conclave["elected"]) == ("0/4", 4, 0)


async def test_the_prompt_is_computed_and_counted_once(client: AsyncClient) -> None:
    prompt = tokens(300, salt=11)
    best = await answer(client, COMPLETIONS, ask(prompt, 4, temperature=1, seed=1, best_of=6))
    assert best["usage"]["prompt_tokens"] == best["reame"]["computed_tokens"] == 300
    assert best["usage"]["completion_tokens"] == best["reame"]["conclave"]["tokens"]
    assert 6 <= best["usage"]["completion_tokens"] <= 24


async def test_the_same_election_again_in_a_crowd_and_heard_to_the_end(client: AsyncClient) -> None:
    """Ten candidates on eight slots, alone and beside others, stopped early and not."""
    body = SUM | {"best_of": 10, "max_tokens": 12}
    first = await answer(client, CHAT, body)
    found: list[dict[str, Any]] = []

    async def again(more: dict[str, Any]) -> None:
        found.append(await answer(client, CHAT, body | more))

    async def others(seed: int) -> None:
        await answer(client, CHAT, say("Tell me a joke.", 16, temperature=1, seed=seed))

    async with trio.open_nursery() as nursery:
        for seed in range(3):
            nursery.start_soon(others, seed)
        nursery.start_soon(again, {})
        nursery.start_soon(again, {"reame": {"early_stop": False}})
    for each in found:
        assert each["choices"] == first["choices"]
        assert each["reame"]["conclave"]["elected"] == first["reame"]["conclave"]["elected"]
        assert each["reame"]["conclave"]["candidates"] == 10


async def test_streamed_it_is_the_same(client: AsyncClient) -> None:
    whole = await answer(client, CHAT, SUM)
    told = await stream(client, CHAT, SUM | {"stream_options": {"include_usage": True}})
    assert told.texts == {0: whole["choices"][0]["message"]["content"]}
    assert told.comments
    (last,) = [event for event in told.events if "reame" in event]
    assert last["reame"]["conclave"]["elected"] == whole["reame"]["conclave"]["elected"]


async def test_auto_is_the_plain_answer_or_an_election(client: AsyncClient) -> None:
    body = say("What is 7 plus 5? Answer with the number only.", 24)
    best = await answer(client, CHAT, body | {"best_of": "auto", "logprobs": True, "top_logprobs": 1})
    conclave = best["reame"]["conclave"]
    assert conclave["candidates"] in (1, 5)
    if conclave["elected"] == 0:
        assert best["choices"][0]["message"]["content"] == await text_of(client, CHAT, body)
    logprobs = best["choices"][0]["logprobs"]["content"]
    assert {len(token["top_logprobs"]) for token in logprobs} == {1}
    text = best["choices"][0]["message"]["content"]
    assert b"".join(bytes(token["bytes"]) for token in logprobs).decode() == text


async def test_under_a_constraint(client: AsyncClient) -> None:
    body = say("Is water wet?", 8, best_of=5, reame={"choice": ["yes", "no"]})
    best = await answer(client, CHAT, body)
    text = best["choices"][0]["message"]["content"]
    conclave = best["reame"]["conclave"]
    assert text in ("yes", "no")
    assert (conclave["vote"], conclave["groups"][0]["answer"]) == ("choice", text)
    assert int(conclave["agreement"][0]) >= 3
    schema = {"type": "object", "properties": {"wet": {"type": "boolean"}}, "required": ["wet"]}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": True}}
    best = await answer(client, CHAT, say("Is water wet?", 40, best_of=3, response_format=form))
    assert isinstance(json.loads(best["choices"][0]["message"]["content"])["wet"], bool)
    assert best["reame"]["conclave"]["vote"] == "json"


async def test_who_leaves_ends_all_candidates(client: AsyncClient) -> None:
    await until_idle(client)
    body = ask("Once upon a time", 1500, logit_bias=ENDLESS, temperature=1, best_of=6)
    body |= {"reame": {"early_stop": False}}  # else some may be held back, where rows are dear
    async with streaming(client, COMPLETIONS, body):
        await until_busy(client, 6)
    await until_idle(client)


async def test_several_prompts(client: AsyncClient) -> None:
    prompts = ["One, two,", "Roses are"]
    best = await answer(client, COMPLETIONS, ask(prompts, 6, best_of=3, echo=True))
    assert [choice["index"] for choice in best["choices"]] == [0, 1]
    assert [choice["text"][:9] for choice in best["choices"]] == prompts
    assert len(best["reame"]["conclave"]) == 2


async def test_the_elected_and_the_next(client: AsyncClient) -> None:
    body = ask("2, 3, 5, 7,", 4, temperature=1, seed=1, best_of=4)
    one = await answer(client, COMPLETIONS, body)
    two = await answer(client, COMPLETIONS, body | {"n": 2, "reame": {"early_stop": False}})
    assert [choice["index"] for choice in two["choices"]] == [0, 1]
    assert two["choices"][0]["text"] == one["choices"][0]["text"]
    assert two["reame"]["conclave"]["elected"] == one["reame"]["conclave"]["elected"]


WRONG: list[dict[str, Any]] = [
    {"best_of": 0}, {"best_of": 100}, {"best_of": 2, "n": 3}, {"best_of": "auto", "n": 2}, {"reame": {"vote": "json"}},
]  # fmt: skip


@pytest.mark.parametrize("fields", WRONG)
async def test_refused(client: AsyncClient, fields: dict[str, Any]) -> None:
    response = await client.post(CHAT, json=say("hi", 4, **fields))
    error = response.json()["error"]
    assert (response.status_code, error["type"]) == (400, "invalid_request_error")
    assert error["param"] in ("best_of", "reame.vote")


async def test_all_kinds_of_n(client: AsyncClient) -> None:
    for n in (0, 1000):
        assert (await client.post(CHAT, json=say("hi", 4, n=n))).status_code == 400
    body = ask(["One,", "Two,", "Three,"], 4, n=2, temperature=0.8, seed=7)
    first, second = [await answer(client, COMPLETIONS, body) for _ in range(2)]
    assert first["choices"] == second["choices"]
    assert [choice["index"] for choice in first["choices"]] == list(range(6))
    alone = await answer(client, COMPLETIONS, ask("Two,", 4, n=2, temperature=0.8, seed=7))
    assert [choice["text"] for choice in first["choices"][2:4]] == [choice["text"] for choice in alone["choices"]]
    single = await answer(client, COMPLETIONS, body | {"n": 1})
    assert first["usage"]["prompt_tokens"] == single["usage"]["prompt_tokens"]
