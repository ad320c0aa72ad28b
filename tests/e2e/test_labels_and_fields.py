"""Classification and the confidence of fields with a real model: exact, cheap, and the same in all circumstances."""

from __future__ import annotations

import json
from collections import Counter
from math import exp
from typing import TYPE_CHECKING, Any

import pytest
import trio
from talking import CHAT, COMPLETIONS, answer, ask, connect, readings, say, until, until_idle

if TYPE_CHECKING:
    from conftest import Launch
    from httpx2 import AsyncClient

MAIL = "Subject: my invoice is wrong\nI was charged twice for the same month. Topic of this mail:"
TOPICS = [
    "billing", "billing refund", "sales", "support", "shipping", "spam", "security", "privacy", "press", "partners",
    "careers", "feedback", "feature request", "bug report", "outage", "login", "password", "account closure", "legal",
    "other",
]  # fmt: skip
PLAIN = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0}
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "kind": {"enum": ["person"]},
        "address": {"type": "object", "properties": {"city": {"enum": ["Rome", "Paris"]}}, "required": ["city"]},
    },
    "required": ["name", "age", "kind", "address"],
}


def choose(prompt: str, labels: list[str], max_tokens: int = 12, **more: Any) -> dict[str, Any]:
    return ask(prompt, max_tokens, reame={"choice": labels, "confidence": True}, **more)


def chances(reply: dict[str, Any]) -> dict[Any, float]:
    found = {each["label"]: each["probability"] for each in reply["reame"]["labels"]}
    assert sum(found.values()) == pytest.approx(1, abs=1e-6)
    return found


async def test_twenty_labels_cost_a_prompt_and_a_few_rows(client: AsyncClient) -> None:
    before = await until_idle(client)
    reply = await answer(client, COMPLETIONS, choose(MAIL, TOPICS, 1))
    after = await until_idle(client)
    found = chances(reply)
    assert set(found) == set(TOPICS)
    assert list(found.values()) == sorted(found.values(), reverse=True)
    rows = after["rows_total"] - before["rows_total"]
    assert rows <= reply["usage"]["prompt_tokens"] + 30
    assert after["step_seconds_count"] - before["step_seconds_count"] <= 8


async def test_they_are_the_products_of_masked_probabilities(client: AsyncClient) -> None:
    """By hand, from single tokens: each fork asked as a prompt of its own, of all the model's tokens."""
    labels = [" blue", " green", " blue green", " black"]
    prompt = "The colour of the sky is"
    reply = await answer(client, COMPLETIONS, choose(prompt, labels))
    ids = {label: (await answer(client, "/tokenize", {"content": label}))["tokens"] for label in labels}
    start = (await answer(client, "/tokenize", {"content": prompt}))["tokens"]

    async def raw(path: list[int], token: int) -> float:
        body = ask([*start, *path, token], 0, echo=True, logprobs=0)
        (choice,) = (await answer(client, COMPLETIONS, body))["choices"]
        return exp(choice["logprobs"]["token_logprobs"][-1])

    firsts = {tokens[0] for tokens in ids.values()}
    assert len(ids[" blue"]) == 1
    assert ids[" blue green"] == [*ids[" blue"], *ids[" green"]]
    at_first = {token: await raw([], token) for token in firsts}
    ends = [await raw(ids[" blue"], end) for end in (0, 2, 4)]  # all that end a generation of SmolLM2's
    further = await raw(ids[" blue"], ids[" green"][0])
    blue = at_first[ids[" blue"][0]] / sum(at_first.values())
    assert chances(reply) == pytest.approx(
        {
            " green": at_first[ids[" green"][0]] / sum(at_first.values()),
            " black": at_first[ids[" black"][0]] / sum(at_first.values()),
            " blue": blue * sum(ends) / (sum(ends) + further),
            " blue green": blue * further / (sum(ends) + further),
        },
        abs=1e-5,
    )


async def test_draws_are_distributed_like_it(client: AsyncClient) -> None:
    """Chi-square; 13.8 is passed once in a thousand with two degrees of freedom, and the seeds are fixed."""
    labels = ["red", "redder", "green"]
    prompt = "Of red, redder and green I like most "
    seen: Counter[str] = Counter()
    for seed in range(40):
        reply = await answer(client, COMPLETIONS, choose(prompt, labels, n=8, seed=seed, **PLAIN))
        seen.update(choice["text"] for choice in reply["choices"])
    expected = {label: seen.total() * chance for label, chance in chances(reply).items()}
    assert seen.total() == 320
    assert sum((seen[label] - number) ** 2 / number for label, number in expected.items()) < 13.8


async def test_warm_and_cold_alone_and_in_a_crowd(client: AsyncClient) -> None:
    prompt = "A question that nobody asked before: " + MAIL
    cold = chances(await answer(client, COMPLETIONS, choose(prompt, TOPICS)))
    crowd: list[dict[Any, float]] = []

    async def classify(salt: int) -> None:
        crowd.append(chances(await answer(client, COMPLETIONS, choose(prompt, TOPICS, n=1 + salt % 2))))

    async def chatter(salt: int) -> None:
        await answer(client, CHAT, say(f"Tell me about the number {salt}.", 24))

    async with trio.open_nursery() as nursery:
        for salt in range(4):
            nursery.start_soon(classify, salt)
            nursery.start_soon(chatter, salt)
    elected = await answer(client, COMPLETIONS, choose(prompt, TOPICS, best_of=3))
    assert crowd == [cold] * 4
    assert chances(elected) == cold


async def test_schemas_that_are_one_enum(client: AsyncClient) -> None:
    for schema, labels, texts in (
        ({"enum": ["yes", "no", None]}, {"yes", "no", None}, {'"yes"', '"no"', "null"}),
        (
            {"type": "object", "properties": {"sure": {"enum": [True, False]}}, "required": ["sure"]},
            {True, False}, {'{"sure":true}', '{"sure":false}'},
        ),
    ):  # fmt: skip
        shape = {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}
        reply = await answer(client, CHAT, say("Is water wet?", 16, response_format=shape, logprobs=True))
        assert set(chances(reply)) == labels
        assert reply["choices"][0]["message"]["content"] in texts
        (confidence,) = reply["reame"]["confidence"].values()
        said = json.loads(reply["choices"][0]["message"]["content"])
        label = said["sure"] if isinstance(said, dict) else said
        assert confidence == pytest.approx(chances(reply)[label], abs=1e-6)


async def test_how_sure_it_is_of_each_field(client: AsyncClient) -> None:
    shape = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    body = say("Anna, 34, lives in Rome. As JSON:", 80, response_format=shape, reame={"confidence": True})
    reply = await answer(client, CHAT, body)
    sure = reply["reame"]["confidence"]
    assert list(sure) == ["/name", "/age", "/kind", "/address/city"]
    assert sure["/kind"] == 1
    assert all(0 < chance <= 1 for chance in sure.values())
    assert sure["/address/city"] < 1
    assert reply["choices"][0]["logprobs"] is None
    shown = await answer(client, CHAT, body | {"reame": {}, "logprobs": True})
    assert shown["reame"]["confidence"] == sure
    assert shown["choices"][0]["message"] == reply["choices"][0]["message"]
    response = await client.post(CHAT, json=body | {"stream": True})
    last = response.text.split("\n\n")[-3]
    assert json.loads(last.removeprefix("data: "))["reame"]["confidence"] == sure


async def test_old_answers_say_it_again(launch: Launch) -> None:
    with launch(engine={"slots": 2, "context": 512}, memory={"answers": True}) as started:
        async with connect(started.wait_ready()) as client:
            first = await answer(client, COMPLETIONS, choose(MAIL, TOPICS))
            await until(client, lambda seen: seen["answers"] == 1)
            again = await answer(client, COMPLETIONS, choose(MAIL, TOPICS))
            assert (first["reame"]["stored_answers"], again["reame"]["stored_answers"]) == (0, 1)
            assert again["reame"]["labels"] == first["reame"]["labels"]
            steps = (await readings(client))["step_seconds_count"]
            streamed = await client.post(COMPLETIONS, json=choose(MAIL, TOPICS, stream=True))
            assert json.loads(streamed.text.split("\n\n")[-3].removeprefix("data: "))["reame"]["labels"]
            assert (await readings(client))["step_seconds_count"] == steps
