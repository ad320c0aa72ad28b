"""`/v1/messages`: Anthropic's bodies become chats, and answers become messages."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from scripted import finish, serving

from reame.api.anthropic import AnthropicVoice, MessageEvents
from reame.api.schema import Limits
from reame.api.schema_anthropic import _chat_body, read_anthropic
from reame.api.schema_fields import Fields
from reame.core.events import Delta
from reame.core.request import Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol
    from scripted import ScriptedIntake

LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100)
HI = {"role": "user", "content": "hi"}


def body(**more: Any) -> dict[str, Any]:
    return {"model": "", "max_tokens": 9, "messages": [HI]} | more


def chat(**more: Any) -> dict[str, Any]:
    return _chat_body(Fields(body(**more)))


def fault(**more: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read_anthropic(json.dumps(body(**more)).encode(), LIMITS)
    assert caught.value.status == 400
    return caught.value


def events(lines: bytes) -> list[tuple[str, dict[str, Any]]]:
    found = []
    for block in lines.decode().strip().split("\n\n"):
        name, data = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    assert all(name == event["type"] for name, event in found)
    return found


def test_what_is_asked() -> None:
    raw = body(system="Be kind.", stop_sequences=["x"], temperature=0.5, top_k=3, metadata={"user_id": "u"})
    wanted = read_anthropic(json.dumps(raw).encode(), LIMITS).wanted
    assert wanted.chat
    assert (wanted.call.max_tokens, wanted.call.stop) == (9, ("x",))
    assert (wanted.call.sampling.temperature, wanted.call.sampling.top_k) == (0.5, 3)
    (prompt,) = wanted.call.prompts
    assert [dict(message) for message in prompt.messages] == [{"role": "system", "content": "Be kind."}, HI]  # type: ignore[union-attr]


def test_a_history_with_tools() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {"at": "sky"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "blue"}]}
    messages = [
        HI,
        {"role": "assistant", "content": [{"type": "thinking"}, {"type": "text", "text": "So"}, call]},
        {"role": "user", "content": [{"type": "text", "text": "and?"}, result]},
    ]
    assert chat(messages=messages)["messages"][1:] == [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "So"}],
            "tool_calls": [
                {"id": "t1", "type": "function", "function": {"name": "look", "arguments": {"at": "sky"}}},
            ],
        },
        {"role": "tool", "tool_call_id": "t1", "content": [{"type": "text", "text": "blue"}]},
        {"role": "user", "content": [{"type": "text", "text": "and?"}]},
    ]


def test_a_tool_that_failed_is_said_to_have() -> None:
    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    for content, said in (
        ("no such file", "The tool failed. no such file"),
        (None, "The tool failed."),
        ([{"type": "text", "text": text} for text in "x"], [
            {"type": "text", "text": text} for text in ("The tool failed.", "x")
        ]),
    ):
        result = {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": content}
        turns = [HI, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
        assert chat(messages=turns)["messages"][-1]["content"] == said


def test_tools_are_translated() -> None:
    tool = {"name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    asked = chat(tools=[tool], tool_choice={"type": "tool", "name": "look", "disable_parallel_tool_use": True})
    function = {"name": "look", "description": "", "parameters": {"type": "object"}, "strict": False}
    assert chat(tools=[tool | {"strict": True}])["tools"][0]["function"]["strict"] is True
    assert asked["tools"] == [{"type": "function", "function": function}]
    assert asked["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert asked["parallel_tool_calls"] is False
    assert chat(tools=[tool], tool_choice={"type": "any"})["tool_choice"] == "required"


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [7]}]}, "messages[0].content[0]"),
        ({"system": 3}, "system"),
        ({"system": [{"type": "image"}]}, "system[0].type"),
        ({"stop_sequences": "x"}, "stop_sequences"),
        ({"stop_sequences": list("abcde")}, "stop_sequences"),
        ({"temperature": 3}, "temperature"),
        ({"stop": ["x"]}, "stop"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_completion_tokens": 5}, "max_completion_tokens"),
        ({"n": 2}, "n"),
        ({"guided_regex": 3}, "guided_regex"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{"name": "a"}], "tool_choice": {"type": "some"}}, "tool_choice.type"),
    ],
)
def test_faults_have_anthropics_names(more: dict[str, Any], param: str) -> None:
    error = fault(**more)
    assert error.param == param
    assert param in error.message


async def test_a_message(client: TestClientProtocol) -> None:
    response = await client.post("/v1/messages", json=body())
    assert response.status_code == 200
    message = await response.get_json()
    assert message["content"] == [{"type": "text", "text": "Hello"}]
    assert (message["type"], message["role"], message["stop_reason"]) == ("message", "assistant", "end_turn")
    assert message["id"].startswith("msg_")
    usage = {"input_tokens": 3, "cache_read_input_tokens": 2, "cache_creation_input_tokens": 0, "output_tokens": 2}
    assert message["usage"] == usage


async def test_a_stream(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="Hel")), (0, Delta(text="lo")), (0, finish("length"))]
    response = await client.post("/v1/messages", json=body(stream=True))
    told = events(await response.get_data())
    assert [name for name, _ in told] == [
        "message_start", "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert told[0][1]["message"]["usage"]["input_tokens"] == 5
    assert "".join(event["delta"]["text"] for name, event in told if name == "content_block_delta") == "Hello"
    assert told[-2][1]["delta"] == {"stop_reason": "max_tokens", "stop_sequence": None}
    assert told[-2][1]["usage"]["output_tokens"] == 2


async def test_a_stop_sequence_is_named(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="Hel")), (0, evolve(finish(), stop="END"))]
    asked = body(stop_sequences=["END"])
    message = await (await client.post("/v1/messages", json=asked)).get_json()
    told = events(await (await client.post("/v1/messages", json=asked | {"stream": True})).get_data())
    ended = {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    assert told[-2][1]["delta"] == ended
    assert {name: message[name] for name in ended} == ended


async def test_an_empty_answer_has_a_block_all_the_same(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, finish())]
    told = events(await (await client.post("/v1/messages", json=body(stream=True))).get_data())
    assert [name for name, _ in told][1:3] == ["content_block_start", "content_block_stop"]
    message = await (await client.post("/v1/messages", json=body())).get_json()
    assert message["content"] == [{"type": "text", "text": ""}]


def test_tool_calls_of_an_answer() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "sky"}'}}
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    reply = {"id": "chatcmpl-1", "model": "tiny", "choices": [choice], "usage": usage, "reame": {}}
    message = AnthropicVoice().whole(reply)
    assert message["stop_reason"] == "tool_use"
    assert message["content"] == [{"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "sky"}}]


def test_a_tool_call_that_was_cut_has_no_input_and_says_why() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"sk'}}
    choice = {"index": 0, "message": {"content": None, "tool_calls": [call]}, "finish_reason": "length"}
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    reply = {"id": "chatcmpl-1", "model": "tiny", "choices": [choice], "usage": usage, "reame": {}}
    message = AnthropicVoice().whole(reply)
    assert message["stop_reason"] == "max_tokens"
    assert message["content"] == [{"type": "tool_use", "id": "c1", "name": "look", "input": {}}]


def test_tool_calls_of_a_stream() -> None:
    head = {"id": "chatcmpl-1", "model": "tiny"}

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    def piece(index: int, text: str, **more: Any) -> dict[str, Any]:
        named = {"name": more.pop("name")} if "name" in more else {}
        return chunk({"tool_calls": [{"index": index, **more, "function": {**named, "arguments": text}}]})

    retold = MessageEvents(5)
    chunks = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "I look."}),
        piece(0, "", id="c1", name="look"),
        piece(0, '{"at": '),
        piece(0, '"sky"}'),
        piece(1, "{}", id="c2", name="stop"),
        chunk({}, "tool_calls"),
        head | {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 9}, "reame": {}},
    ]
    told = events(b"".join(map(retold.take, chunks)) + retold.end())
    blocks = [event["content_block"] for name, event in told if name == "content_block_start"]
    assert [(block["type"], block.get("name"), block.get("id")) for block in blocks] == [
        ("text", None, None), ("tool_use", "look", "c1"), ("tool_use", "stop", "c2"),
    ]  # fmt: skip
    pieces: dict[int, str] = {}
    for name, event in told:
        if name == "content_block_delta":
            index = event["index"]
            pieces[index] = pieces.get(index, "") + event["delta"].get("partial_json", event["delta"].get("text", ""))
    assert pieces == {0: "I look.", 1: '{"at": "sky"}', 2: "{}"}
    assert told[-2][1]["delta"]["stop_reason"] == "tool_use"


@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit_error"), (503, "overloaded_error"), (404, "not_found_error")]
)
async def test_errors_are_anthropics(
    client: TestClientProtocol, intake: ScriptedIntake, status: int, kind: str
) -> None:
    intake.refusal = RequestError("no", status=status, retry_after=2)
    response = await client.post("/v1/messages", json=body())
    assert (response.status_code, response.headers["Retry-After"]) == (status, "2")
    assert await response.get_json() == {"type": "error", "error": {"type": kind, "message": "no"}}


async def test_an_error_in_a_stream(intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="x")), ValueError("a bug")]
    async with serving(intake) as served:
        response = await served.http.post("/v1/messages", json=body(stream=True))
    name, event = events(response.content)[-1]
    assert (name, event["error"]["type"]) == ("error", "api_error")
