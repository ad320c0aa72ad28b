"""Conversations."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from reame.api.schema import Limits
from reame.api.schema_chat import read_chat
from reame.core.request import Chat, Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.api.schema import Wanted

USER = {"role": "user", "content": "hi"}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
TOOL = {"role": "tool", "tool_call_id": "c1", "content": "42"}


def read(**fields: Any) -> Wanted:
    return read_chat(json.dumps({"messages": [USER]} | fields).encode(), Limits(sampling=Sampling(), max_n=4))


def conversation(*messages: Any) -> Chat:
    (prompt,) = read(messages=messages).call.prompts
    assert isinstance(prompt, Chat)
    return prompt


def fault(*messages: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read(messages=messages)
    assert caught.value.status == 400
    return caught.value


def test_a_refusal_of_the_past_is_what_was_said() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "I will not."}
    assert conversation(USER, refused, USER).messages[1] == {"role": "assistant", "content": "I will not."}
    assert fault(USER, {"role": "user", "content": None, "refusal": "no"}).param == "messages[1].content"


def test_messages_as_the_template_gets_them() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    chat = conversation(
        {"role": "developer", "content": "be brief", "unknown": 1},
        {"role": "user", "content": parts, "name": "ann"},
        {
            "role": "assistant",
            "content": [{"type": "refusal", "refusal": "no"}],
            "reasoning_content": "hm",
            "refusal": None,
        },
        {"role": "user", "content": ""},
    )
    assert chat.messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "one\ntwo", "name": "ann"},
        {"role": "assistant", "content": "no", "reasoning_content": "hm"},
        {"role": "user", "content": ""},
    )
    assert not chat.continue_last


def test_a_last_assistant_message_is_continued() -> None:
    assert conversation(USER, {"role": "assistant", "content": "It is"}).continue_last


@pytest.mark.parametrize("content", [{}, {"content": None}, {"content": ""}])
def test_a_history_with_tool_calls(content: dict[str, Any]) -> None:
    chat = conversation(USER, {"role": "assistant", "tool_calls": [CALL], **content}, TOOL, USER)
    assert chat.messages[1] == {"role": "assistant", "content": "", "tool_calls": [CALL]}
    assert chat.messages[2] == TOOL


@pytest.mark.parametrize(
    ("arguments", "handed_on"),
    [
        *(('{"a": 1}', '{"a": 1}'), ({"a": 1}, {"a": 1}), ("", "{}"), ("{}", "{}")),
        *((cut, cut) for cut in ("{", '{"city": "Ro', "[]", "1")),
    ],
)
def test_arguments_of_a_tool_call(arguments: object, handed_on: object) -> None:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    chat = conversation(USER, {"role": "assistant", "tool_calls": [call]}, TOOL)
    assert chat.messages[1]["tool_calls"][0]["function"]["arguments"] == handed_on


@pytest.mark.parametrize("arguments", [None, 5, ["a"]])
def test_arguments_of_another_kind_are_refused(arguments: object) -> None:
    call = {**CALL, "function": {"name": "f", "arguments": arguments}}
    error = fault(USER, {"role": "assistant", "tool_calls": [call]}, TOOL)
    assert error.param == "messages[1].tool_calls[0].function.arguments"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("x", "messages[1]"),
        ({}, "messages[1].role"),
        ({"role": "foo", "content": "x"}, "messages[1].role"),
        ({"role": 5, "content": "x"}, "messages[1].role"),
        ({"role": "user"}, "messages[1].content"),
        ({"role": "user", "content": None}, "messages[1].content"),
        ({"role": "user", "content": 5}, "messages[1].content"),
        ({"role": "user", "content": {}}, "messages[1].content"),
        ({"role": "user", "content": ["x"]}, "messages[1].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[1].content[0].text"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}, "messages[1].content[0].type"),
        ({"role": "user", "content": "x", "name": 5}, "messages[1].name"),
        ({"role": "assistant", "content": None}, "messages[1].content"),
        ({"role": "assistant", "tool_calls": {}}, "messages[1].tool_calls"),
        ({"role": "assistant", "tool_calls": [5]}, "messages[1].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{**CALL, "id": None}]}, "messages[1].tool_calls[0].id"),
        ({"role": "assistant", "tool_calls": [{**CALL, "type": "x"}]}, "messages[1].tool_calls[0].type"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[1].tool_calls[0].function"),
        ({"role": "assistant", "tool_calls": [CALL]}, "messages"),
        ({"role": "assistant", "content": None, "function_call": CALL["function"]}, "messages[1].function_call"),
        ({"role": "assistant", "content": "x", "function_call": CALL["function"]}, "messages[1].function_call"),
        ({"role": "tool", "content": "x"}, "messages[1].tool_call_id"),
        ({"role": "tool", "content": "x", "tool_call_id": None}, "messages[1].tool_call_id"),
    ],
)
def test_a_broken_message_is_named(message: object, param: str) -> None:
    assert fault(USER, message).param == param


@pytest.mark.parametrize("messages", [None, [], "x", {}, 5])
def test_messages_must_be_a_list_with_something_in_it(messages: object) -> None:
    with pytest.raises(RequestError) as caught:
        read(messages=messages)
    assert caught.value.param == "messages"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"functions": [{}]}, "functions"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": 5}, "logprobs"),
    ],
)
def test_what_this_version_cannot_do_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert caught.value.param == param


def test_what_asks_for_nothing_is_accepted() -> None:
    assert read(tools=[], functions=[], tool_choice="auto", function_call="none", modalities=["text"]).chat


@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_logprobs(fields: dict[str, Any], logprobs: int | None) -> None:
    assert read(**fields).call.logprobs == logprobs
