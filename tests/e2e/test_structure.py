"""Answers that a real daemon holds to something: valid however they are drawn, the same alone and in a crowd, whole and
streamed; and what cannot be held to hurts nobody."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import trio
from jsonschema import Draft202012Validator
from streams import stream
from talking import CHAT, COMPLETIONS, answer, ask, health, say, text_of

if TYPE_CHECKING:
    from httpx2 import AsyncClient

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["old", "new", "red"]}, "maxItems": 3},
        "address": {"type": "object", "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{1,12}$"}}},
    },
    "required": ["name", "age", "tags"],
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
TEXT = "Anna Rossi, 34, lives in Milan; her coat is new and red. Extract it as JSON."
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": SCHEMA}}
HOSTILE: list[dict[str, Any]] = [
    {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"pattern": "(?=x)"}}}},
    {"guided_json": {"allOf": [{"type": "string", "pattern": f"^(..)*a.{{{n}}}$"} for n in range(1, 30)]}},
    {"guided_json": {"enum": [f"{'x' * 80} {n}" for n in range(50_000)]}},
    {"guided_regex": "(" * 5000 + "a" + ")" * 5000},
    {"grammar": f"root ::= {'(' * 5000}\"a\"{')' * 5000}"},
    {"grammar": "start: r0\n" + "\n".join(f'r{n}: "a" r{n + 1}' for n in range(9000)) + '\nr9000: "b"'},
]
AMBIGUOUS = 'start: s{300}\ns: t | t t | t t t\nt: "a" | "aa" | "aaa" | "ab" | s'


def asking(max_tokens: int = 90, **more: Any) -> dict[str, Any]:
    return say(TEXT, max_tokens, response_format=FORMAT, **more)


@pytest.mark.parametrize("temperature", [0, 1])
async def test_every_answer_validates(client: AsyncClient, temperature: int) -> None:
    bodies = [asking(temperature=temperature, seed=seed, n=4) for seed in range(3 if temperature else 1)]
    choices = [choice for body in bodies for choice in (await answer(client, CHAT, body))["choices"]]
    assert {choice["finish_reason"] for choice in choices} <= {"stop", "length"}
    ended = [choice["message"]["content"] for choice in choices if choice["finish_reason"] == "stop"]
    assert len(ended) > len(choices) / 2
    for text in ended:
        value = json.loads(text)
        Draft202012Validator(SCHEMA).validate(value)
        assert text == json.dumps(value, separators=(",", ":"), ensure_ascii=False)


async def test_a_short_one_says_length(client: AsyncClient) -> None:
    (choice,) = (await answer(client, CHAT, asking(7)))["choices"]
    assert (choice["finish_reason"], choice["message"]["content"].startswith('{"name":"')) == ("length", True)


async def test_alone_in_a_crowd_and_streamed_it_is_the_same(client: AsyncClient) -> None:
    bodies = [asking(temperature=1, seed=seed) for seed in range(4)]
    alone = [await text_of(client, CHAT, body) for body in bodies]
    crowd = [""] * 4

    async def one(index: int) -> None:
        crowd[index] = await text_of(client, CHAT, bodies[index])

    async with trio.open_nursery() as nursery:
        for index in range(4):
            nursery.start_soon(one, index)
    assert crowd == alone
    assert (await stream(client, CHAT, bodies[0])).texts == {0: alone[0]}


async def test_hostile_ones_are_refused_and_others_do_not_notice(client: AsyncClient) -> None:
    before = await text_of(client, COMPLETIONS, ask("The river", 60))
    beside = [""]

    async def neighbour() -> None:
        beside[0] = await text_of(client, COMPLETIONS, ask("The river", 60))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(neighbour)
        for body in HOSTILE:
            response = await client.post(COMPLETIONS, json=ask("x", **body))
            assert response.status_code == 400, response.text
            assert response.json()["error"]["param"]
    assert beside == [before]


async def test_what_gets_too_complex_ends_alone(client: AsyncClient) -> None:
    body = ask("aaaaaaaaaaaaaaaaaaaaaaaa", 600, reame={"grammar": AMBIGUOUS})
    response = await client.post(COMPLETIONS, json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "constraint_too_complex")
    assert (await health(client))["status"] == "ok"


async def test_tools_are_called_and_their_results_read(client: AsyncClient) -> None:
    body = say(TEXT, 120, tools=[TOOL], tool_choice="required", parallel_tool_calls=False)
    (choice,) = (await answer(client, CHAT, body))["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    Draft202012Validator(SCHEMA).validate(json.loads(call["function"]["arguments"]))
    result = {"role": "tool", "tool_call_id": call["id"], "content": "found"}
    more = say(TEXT, 8, tools=[TOOL])
    more["messages"] += [choice["message"], result]
    assert (await answer(client, CHAT, more))["choices"][0]["finish_reason"] in ("stop", "length", "tool_calls")
