"""`/v1/responses`: its bodies become chats, answers become response objects, and a conversation goes on by an id."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from openai.types.responses import Response, ResponseItem, ResponseStreamEvent
from pydantic import TypeAdapter
from scripted import NoMetrics, finish, serving

from reame.api.app import create_app
from reame.api.response_events import ResponseEvents
from reame.api.response_object import finished, said
from reame.api.schema import Limits
from reame.api.schema_fields import Fields
from reame.api.schema_responses import _chat_body, read_responses
from reame.config import Config
from reame.config_keys import ApiKey
from reame.core.events import Delta
from reame.core.request import Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol
    from scripted import ScriptedIntake

LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100)
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
ITEMS: TypeAdapter[list[ResponseItem]] = TypeAdapter(list[ResponseItem])
USAGE = {
    "prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14, "prompt_tokens_details": {"cached_tokens": 1},
}  # fmt: skip
ECHO: dict[str, Any] = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}


def read(**body: Any) -> list[dict[str, Any]]:
    """The messages that the model gets."""
    wanted = read_responses(json.dumps(body).encode(), LIMITS).after((), LIMITS)
    return [dict(message) for message in wanted.call.prompts[0].messages]  # type: ignore[union-attr]


def events(lines: bytes) -> list[dict[str, Any]]:
    """Checked against the official types, with numbers from 0 on."""
    found = []
    for number, block in enumerate(lines.decode().strip().split("\n\n")):
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert (event["type"], event["sequence_number"]) == (name.removeprefix("event: "), number)
        EVENT.validate_python(event, strict=False)
        found.append(event)
    return found


def test_what_is_asked() -> None:
    hi = {"role": "user", "content": "hi"}
    assert read(input="hi") == [hi]
    assert read(input="hi", instructions="Be kind.") == [{"role": "system", "content": "Be kind."}, hi]
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]
    assert read(input=[{"role": "user", "content": parts}]) == [{"role": "user", "content": "a\nb"}]


def test_settings_go_on_to_the_chat() -> None:
    raw = {"input": "hi", "max_output_tokens": 7, "temperature": 0.5, "top_logprobs": 2, "stream": True}
    wanted = read_responses(json.dumps(raw).encode(), LIMITS).after((), LIMITS)
    assert (wanted.call.max_tokens, wanted.call.sampling.temperature, wanted.call.logprobs) == (7, 0.5, 2)
    assert wanted.stream
    assert wanted.include_usage


def test_a_history_with_calls() -> None:
    items = [
        {"role": "user", "content": "weather?"},
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "look", "arguments": ""},
        {"type": "function_call_output", "call_id": "c1", "output": "sun"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]},
    ]
    messages = read(input=items)
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool"]
    assert [call["id"] for call in messages[1]["tool_calls"]] == ["c1", "c2"]
    assert [message["content"] for message in messages] == ["weather?", "I look.", "sun", "rain"]


def test_tools_and_formats_are_nested() -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": True}
    shape = {"type": "json_schema", "name": "w", "schema": {"type": "object"}, "strict": True}
    choice = {"type": "function", "name": "look"}
    body = _chat_body(Fields({"tools": [tool], "tool_choice": choice, "text": {"format": shape}}))
    function = {"name": "look", "parameters": {"type": "object"}, "strict": True}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    inner = {"name": "w", "schema": {"type": "object"}, "strict": True}
    assert body["response_format"] == {"type": "json_schema", "json_schema": inner}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": 3}, "input"),
        ({"input": [3]}, "input[0]"),
        ({"input": [{"type": "item_reference"}]}, "input[0].id"),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0].type"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].call_id"),
        ({"input": "x", "max_output_tokens": 0}, "max_output_tokens"),
        ({"input": "x", "temperature": 9}, "temperature"),
        ({"input": "x", "background": True}, "background"),
        ({"input": "x", "tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": "x", "store": "yes"}, "store"),
        ({"input": "x", "metadata": 3, "instructions": 4}, "instructions"),
    ],
)
def test_faults_have_the_apis_names(body: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_responses(json.dumps(body).encode(), LIMITS)
    assert (caught.value.status, caught.value.param) == (400, param)


async def test_what_is_refused_later_has_the_apis_names_too(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    """A schema is compiled when the call is let in."""
    param = "response_format.json_schema.schema.type"
    intake.refusal = RequestError(f"{param} must be one", status=400, param=param)
    answer = await client.post("/v1/responses", json={"input": "x"})
    error = (await answer.get_json())["error"]
    assert (answer.status_code, error["param"]) == (400, "text.format.schema.type")
    assert error["message"] == "text.format.schema.type must be one"


async def test_a_response(client: TestClientProtocol) -> None:
    answer = await client.post("/v1/responses", json={"input": "hi", "metadata": {"a": "b"}})
    assert answer.status_code == 200
    body = await answer.get_json()
    response = Response.model_validate(body)
    assert response.output_text == "Hello"
    assert (response.status, response.metadata) == ("completed", {"a": "b"})
    assert response.usage is not None
    assert (response.usage.input_tokens, response.usage.input_tokens_details.cached_tokens) == (5, 2)


async def test_a_cut_response(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="Hel")), (0, finish("length"))]
    body = await (await client.post("/v1/responses", json={"input": "hi"})).get_json()
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert body["output"][0]["status"] == "incomplete"


async def test_a_stream(client: TestClientProtocol) -> None:
    answer = await client.post("/v1/responses", json={"input": "hi", "stream": True})
    told = events(await answer.get_data())
    assert [event["type"].removeprefix("response.") for event in told] == [
        "created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
        "output_text.done", "content_part.done", "output_item.done", "completed",
    ]  # fmt: skip
    assert "".join(event["delta"] for event in told if event["type"].endswith("text.delta")) == "Hello"
    last = Response.model_validate(told[-1]["response"])
    assert last.output_text == "Hello"
    assert last.usage is not None


async def test_an_error_in_a_stream(intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="x")), ValueError("a bug")]
    async with serving(intake) as served:
        answer = await served.http.post("/v1/responses", json={"input": "hi", "stream": True})
    last = events(answer.content)[-1]
    assert (last["type"], last["code"]) == ("error", None)
    assert "bug" not in last["message"]


def test_calls_of_an_answer_and_of_a_stream_are_the_same() -> None:
    head = {"id": "chatcmpl-1", "model": "tiny", "created": 7}
    calls = [
        {"index": number, "id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}
        for number in range(2)
    ]
    choice = {"index": 0, "message": {"content": "So", "tool_calls": calls}, "finish_reason": "tool_calls"}
    whole = finished(head | {"choices": [choice], "usage": USAGE, "reame": {}}, ECHO)

    def chunk(delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    pieces = [
        chunk({"tool_calls": [{"index": call["index"], "function": {"arguments": piece}}]})
        for call in calls
        for piece in ('{"a"', ":1}")
    ]
    starts = [
        chunk({"tool_calls": [call | {"function": {"name": "look", "arguments": ""}}]}) for call in calls
    ]
    chunks = [
        chunk({"role": "assistant", "content": ""}), chunk({"content": "So"}),
        starts[0], *pieces[:2], starts[1], *pieces[2:],
        chunk({}, "tool_calls"), head | {"choices": [], "usage": USAGE, "reame": {}},
    ]  # fmt: skip
    kept: list[dict[str, Any]] = []
    retold = ResponseEvents(ECHO, kept.append)
    told = events(b"".join(map(retold.take, chunks)) + retold.end())
    assert kept == [told[-1]["response"]] == [whole]
    assert said(whole)["tool_calls"][1] == {key: value for key, value in calls[1].items() if key != "index"}


async def test_a_conversation_goes_on(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    first = await (await client.post("/v1/responses", json={"input": "hi", "instructions": "Be kind."})).get_json()
    got = await client.get(f"/v1/responses/{first['id']}")
    assert await got.get_json() == first
    more = {"input": "and?", "previous_response_id": first["id"], "stream": True}
    await (await client.post("/v1/responses", json=more)).get_data()
    messages = [dict(message) for message in intake.call.prompts[0].messages]  # type: ignore[union-attr]
    assert messages == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "and?"},
    ]


async def test_what_it_was_an_answer_to(client: TestClientProtocol) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "look", "arguments": '{"at":"it"}'}
    items = [
        {"role": "system", "content": "Be kind."}, {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"role": "assistant", "content": "I look."}, call | {"arguments": {"at": "it"}},
        {"type": "function_call_output", "call_id": "c", "output": "a cat"},
    ]  # fmt: skip
    first = await (await client.post("/v1/responses", json={"input": items})).get_json()
    url = f"/v1/responses/{first['id']}/input_items"
    told = (await (await client.get(url, query_string={"order": "asc"})).get_json())["data"]
    ITEMS.validate_python(told, strict=False)
    assert [item["type"] for item in told] == ["message"] * 3 + ["function_call", "function_call_output"]
    assert [item["content"][0]["text"] for item in told[:3]] == ["Be kind.", "hi", "I look."]
    assert told[3].items() >= call.items()
    assert (told[4]["call_id"], told[4]["output"]) == ("c", "a cat")
    newest = await (await client.get(url, query_string={"limit": 2})).get_json()
    assert (newest["data"], newest["has_more"]) == ([told[4], told[3]], True)
    assert (await client.get(url, query_string={"limit": 0})).status_code == 400
    assert (await client.get("/v1/responses/resp_1/input_items")).status_code == 404


async def test_who_deletes_a_response(intake: ScriptedIntake) -> None:
    """Only the key that has it."""
    keys = (ApiKey("anna", "a" * 32), ApiKey("bert", "b" * 32))
    client = create_app(Config(), intake, NoMetrics(), keys).test_client()  # type: ignore[arg-type]
    anna, bert = ({"Authorization": f"Bearer {key.secret}"} for key in keys)
    kept = await (await client.post("/v1/responses", json={"input": "hi"}, headers=anna)).get_json()
    url = f"/v1/responses/{kept['id']}"
    for ask in (client.get, client.delete):
        answer = await ask(url, headers=bert)
        assert (answer.status_code, (await answer.get_json())["error"]["code"]) == (404, "previous_response_not_found")
    answer = await client.delete(url, headers=anna)
    assert await answer.get_json() == {"id": kept["id"], "object": "response", "deleted": True}
    assert intake.texts == {}
    assert (await client.delete(url, headers=anna)).status_code == 404


async def test_what_is_not_kept_cannot_go_on(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    first = await (await client.post("/v1/responses", json={"input": "hi", "store": False})).get_json()
    assert intake.texts == {}
    answer = await client.post("/v1/responses", json={"input": "x", "previous_response_id": first["id"]})
    error = (await answer.get_json())["error"]
    assert (answer.status_code, error["param"]) == (400, "previous_response_id")
    assert error["code"] == "previous_response_not_found"
    assert (await client.get("/v1/responses/resp_1")).status_code == 404


async def test_items_may_be_referred_to(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    first = await (await client.post("/v1/responses", json={"input": "hi"})).get_json()
    item = {"type": "item_reference", "id": first["output"][0]["id"]}
    turns = [{"role": "user", "content": "hi"}, item, {"role": "user", "content": "and?"}]
    assert (await client.post("/v1/responses", json={"input": turns})).status_code == 200
    messages = intake.call.prompts[0].messages  # type: ignore[union-attr]
    assert [(m["role"], m["content"]) for m in messages] == [("user", "hi"), ("assistant", "Hello"), ("user", "and?")]
    for other in ("msg_0", "x", "fc_0_1"):
        answer = await client.post("/v1/responses", json={"input": [{**item, "id": other}]})
        assert (answer.status_code, (await answer.get_json())["error"]["param"]) == (404, "input")


def test_logprobs_beside_calls_break_nothing() -> None:
    """The marks and the arguments of a call are tokens with probabilities too, and have no text."""
    head = {"id": "chatcmpl-1", "model": "tiny", "created": 7}
    seen = {"content": [{"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": []}]}

    def chunk(delta: dict[str, Any], logprobs: Any = seen, reason: str | None = None) -> dict[str, Any]:
        return head | {"choices": [{"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}]}

    call = {"index": 0, "id": "c0", "type": "function", "function": {"name": "look", "arguments": ""}}
    more = [{"index": 0, "function": {"arguments": piece}} for piece in ('{"a"', ":1}")]
    chunks = [
        chunk({"role": "assistant", "content": ""}, None), chunk({}), chunk({"tool_calls": [call]}),
        *(chunk({"tool_calls": [each]}) for each in more), chunk({}, None, "tool_calls"),
        head | {"choices": [], "usage": USAGE, "reame": {}},
    ]  # fmt: skip
    kept: list[dict[str, Any]] = []
    retold = ResponseEvents(ECHO, kept.append)
    told = events(b"".join(map(retold.take, chunks)) + retold.end())
    (item,) = kept[0]["output"]
    assert (item["type"], item["arguments"], item["status"]) == ("function_call", '{"a":1}', "completed")
    assert [event["type"] for event in told].count("response.output_item.added") == 1


def test_a_call_that_was_cut_is_incomplete_and_not_said() -> None:
    head = {"id": "chatcmpl-1", "model": "tiny", "created": 7, "usage": USAGE, "reame": {}}
    calls = [
        {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": arguments}}
        for number, arguments in enumerate(('{"a":1}', '{"a'))
    ]
    choice = {"index": 0, "message": {"content": None, "tool_calls": calls}, "finish_reason": "length"}
    response = finished(head | {"choices": [choice]}, ECHO)
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]
    assert [call["id"] for call in said(response)["tool_calls"]] == ["c0"]
