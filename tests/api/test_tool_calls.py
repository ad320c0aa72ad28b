"""Calls of tools, as OpenAI's own client reads them: whole and streamed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openai import AsyncOpenAI
from scripted import MODEL, ScriptedIntake, finish, serving

from reame.core.events import Delta, TokenLogprob

if TYPE_CHECKING:
    from reame.core.events import FinishReason
    from reame.core.request import Call

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")
"""The client leaves its own generators unfinished, and Trio remarks upon it."""

CALLS = [("weather", '{"city": "Rome"}'), ("wait", "{}")]
TEXT = "\n".join(f'<tool_call>\n{{"name": "{name}", "arguments": {each}}}\n</tool_call>' for name, each in CALLS)
TOOLS: Any = [{"type": "function", "function": {"name": name}} for name, _ in CALLS]


def saying(text: str, reason: FinishReason = "stop") -> ScriptedIntake:
    """Each choice says it letter by letter, and tells the logprob of each."""

    def script(call: Call) -> list[Any]:
        steps: list[Any] = []
        for index in range(call.n):
            rated = [(letter, (TokenLogprob(1, letter.encode(), -0.5),)) for letter in text]
            steps += [(index, Delta(text=letter, logprobs=told)) for letter, told in rated]
            steps.append((index, finish(reason)))
        return steps

    return ScriptedIntake(script=script)


async def asked(intake: ScriptedIntake, **fields: Any) -> Any:
    """The whole answer, and that of the stream put together by the client's own helper."""
    async with serving(intake) as served, AsyncOpenAI(base_url=f"{served.url}/v1", api_key="none") as client:
        messages = [{"role": "user", "content": "x"}]
        body: dict[str, Any] = {"model": MODEL, "messages": messages, "tools": TOOLS, **fields}
        whole = await client.chat.completions.create(**body)
        async with client.chat.completions.stream(**body) as stream:
            streamed = await stream.get_final_completion()
    return whole, streamed


async def test_calls_are_the_same_whole_and_streamed() -> None:
    for answer in await asked(saying(f"I look.\n{TEXT}"), n=2):
        ids = set()
        for choice in answer.choices:
            assert (choice.finish_reason, choice.message.content) == ("tool_calls", "I look.")
            calls = choice.message.tool_calls
            assert [(call.function.name, call.function.arguments) for call in calls] == CALLS
            assert {call.type for call in calls} == {"function"}
            ids |= {call.id for call in calls}
        assert len(ids) == 4


async def test_calls_alone_have_no_content() -> None:
    for answer in await asked(saying(TEXT)):
        assert not answer.choices[0].message.content
        assert len(answer.choices[0].message.tool_calls) == 2


async def test_an_answer_without_a_call_is_text() -> None:
    for answer in await asked(saying("No need for <tools>. ")):
        assert (answer.choices[0].finish_reason, answer.choices[0].message.content) == ("stop", "No need for <tools>. ")
        assert not answer.choices[0].message.tool_calls


async def test_a_call_that_was_cut_says_so() -> None:
    async with serving(saying(TEXT[:58], "length")) as served:
        body = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS}
        (choice,) = (await served.http.post("/v1/chat/completions", json=body)).json()["choices"]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["tool_calls"][0]["function"]["arguments"] == '{"city": "Rom'


async def test_without_tools_the_same_text_is_text() -> None:
    for answer in await asked(saying(TEXT), tool_choice="none"):
        assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (TEXT, "stop")


async def test_the_stream_piece_by_piece() -> None:
    async with serving(saying(f"I look.\n{TEXT}")) as served:
        body = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS, "stream": True, "logprobs": True}
        lines = (await served.http.post("/v1/chat/completions", json=body)).text.split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    choices = [chunk["choices"][0] for chunk in chunks]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    begun = [call for call in calls if "id" in call]
    assert [(call["index"], call["type"], call["function"]) for call in begun] == [
        (index, "function", {"name": name, "arguments": ""}) for index, (name, _) in enumerate(CALLS)
    ]
    assert all(set(call) == {"index", "function"} for call in calls if call not in begun)
    told = [token for choice in choices if choice["logprobs"] for token in choice["logprobs"]["content"]]
    assert "".join(token["token"] for token in told) == f"I look.\n{TEXT}"
    assert (choices[-1]["delta"], choices[-1]["finish_reason"]) == ({}, "tool_calls")


async def said(text: str, reason: FinishReason, **fields: Any) -> list[tuple[str, str]]:
    """The text and the reason of an answer without calls, whole and streamed."""
    body = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **fields}
    async with serving(saying(text, reason)) as served:
        (whole,) = (await served.http.post("/v1/chat/completions", json=body)).json()["choices"]
        lines = (await served.http.post("/v1/chat/completions", json=body | {"stream": True})).text.split("\n\n")
    choices = [json.loads(line[6:])["choices"][0] for line in lines if line.startswith("data: {")]
    assert not any("tool_calls" in told for told in (whole["message"], *(choice["delta"] for choice in choices)))
    streamed = "".join(choice["delta"].get("content", "") for choice in choices)
    return [(whole["message"]["content"], whole["finish_reason"]), (streamed, choices[-1]["finish_reason"])]


@pytest.mark.parametrize(("choice", "size"), [("required", 1), ("required", 6), ("auto", 6)])
async def test_a_mark_that_was_cut_is_no_text(choice: str, size: int) -> None:
    assert await said(TEXT[:size], "length", tool_choice=choice) == [("", "length")] * 2


@pytest.mark.parametrize(("text", "reason"), [("a <", "length"), ("a <", "stop"), ("a <tool_", "stop")])
async def test_what_only_looks_like_a_mark_is_text(text: str, reason: FinishReason) -> None:
    assert await said(text, reason) == [(text, reason)] * 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_mark_that_was_cut_is_no_text_in_other_protocols(stream: bool) -> None:
    tool = {"name": "weather", "input_schema": {"type": "object"}}
    user: dict[str, Any] = {"role": "user", "content": "x"}
    anthropic = {"max_tokens": 9, "messages": [user], "tools": [tool], "tool_choice": {"type": "any"}, "stream": stream}
    function = {"type": "function", "name": "weather", "parameters": {"type": "object"}}
    responses = {"input": "x", "tools": [function], "tool_choice": "required", "stream": stream}
    async with serving(saying(TEXT[:6], "length")) as served:
        for path, body in (("/v1/messages", anthropic), ("/v1/responses", responses)):
            answer = await served.http.post(path, json=body)
            assert answer.status_code == 200
            assert "<" not in answer.text
            assert "max_" in answer.text
