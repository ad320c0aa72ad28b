"""openai-python, synchronous, on asyncio and on Trio: tools, parsed answers, stream helpers, responses, embeddings.

Strict: the client refuses what does not fit its types. Plain chats are in tests/e2e/test_openai_clients.py.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, Literal

import httpx2
import openai
import pytest
from pydantic import BaseModel

if TYPE_CHECKING:
    from daemon_process import DaemonProcess

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")
"""The client leaves its own generators unfinished, and Trio remarks upon it."""
QUESTION = "How do you feel today?"
MESSAGES: list[Any] = [{"role": "user", "content": QUESTION}]
ASKED: dict[str, Any] = {"model": "small", "messages": MESSAGES, "temperature": 0, "max_tokens": 40}
RESPONSE: dict[str, Any] = {"model": "small", "input": QUESTION, "temperature": 0, "max_output_tokens": 12}


class Note(BaseModel):
    """A mood, written down."""

    mood: Literal["good", "bad"]
    sure: bool


TOOLS: list[Any] = [openai.pydantic_function_tool(Note)]
FORCED: dict[str, Any] = {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "Note"}}}


def key(daemon: DaemonProcess) -> dict[str, Any]:
    return {"base_url": f"{daemon.url}/v1", "api_key": "none", "max_retries": 0, "_strict_response_validation": True}


async def every_way(daemon: DaemonProcess) -> None:
    """The asynchronous client, on whatever runs this coroutine."""
    async with openai.AsyncOpenAI(**key(daemon)) as client:
        chat = await client.chat.completions.parse(**ASKED, response_format=Note)
        assert isinstance(chat.choices[0].message.parsed, Note)

        called = await client.chat.completions.parse(**ASKED, **FORCED)
        (call,) = called.choices[0].message.tool_calls or ()
        assert called.choices[0].finish_reason == "tool_calls"
        assert isinstance(call.function.parsed_arguments, Note)

        async with client.chat.completions.stream(**ASKED, **FORCED) as stream:
            kinds = [event.type async for event in stream]
            final = await stream.get_final_completion()
        assert "tool_calls.function.arguments.done" in kinds
        assert (final.choices[0].message.tool_calls or ())[0].function.arguments == call.function.arguments

        whole = await client.responses.create(**RESPONSE)
        async with client.responses.stream(**RESPONSE) as told:
            happened = [event async for event in told]
        texts = [event.delta for event in happened if event.type == "response.output_text.delta"]
        last = happened[-1]
        assert last.type == "response.incomplete"
        assert "".join(texts) == last.response.output_text == whole.output_text
        assert last.response.usage is not None
        assert last.response.usage.output_tokens == 12

        parsed = await client.responses.parse(**RESPONSE | {"max_output_tokens": 40}, text_format=Note)
        assert isinstance(parsed.output_parsed, Note)

        plain = await client.embeddings.create(model="small-vectors", input="c", encoding_format="float")
    # Its default is base64, which its own types do not allow for.
    async with openai.AsyncOpenAI(**key(daemon) | {"_strict_response_validation": False}) as client:
        vectors = await client.embeddings.create(model="small-vectors", input=["a b", "c"])
        assert vectors.data[1].embedding == plain.data[0].embedding


def test_on_asyncio(served: DaemonProcess) -> None:
    asyncio.run(every_way(served))


async def test_on_trio(served: DaemonProcess) -> None:
    await every_way(served)


def test_a_tool_is_used_and_answered(served: DaemonProcess) -> None:
    with openai.OpenAI(**key(served)) as client:
        called = client.chat.completions.create(**ASKED, **FORCED)
        message = called.choices[0].message
        (call,) = message.tool_calls or ()
        history = [*MESSAGES, message.model_dump(exclude_none=True)]
        history.append({"role": "tool", "tool_call_id": call.id, "content": "written down"})
        answer = client.chat.completions.create(**ASKED | {"messages": history, "tools": TOOLS, "tool_choice": "none"})
        assert answer.choices[0].message.content
        assert answer.choices[0].message.tool_calls is None


def test_the_pieces_of_a_streamed_call(served: DaemonProcess) -> None:
    """Index, id, type and name in the first; the pieces of the arguments are one JSON value."""
    with openai.OpenAI(**key(served)) as client:
        chunks = list(client.chat.completions.create(**ASKED, **FORCED, stream=True))
    pieces = [piece for chunk in chunks for choice in chunk.choices for piece in choice.delta.tool_calls or ()]
    first = pieces[0]
    assert (first.index, first.type, first.function and first.function.name) == (0, "function", "Note")
    assert first.id
    Note.model_validate(json.loads("".join((piece.function and piece.function.arguments) or "" for piece in pieces)))
    assert [choice.finish_reason for chunk in chunks for choice in chunk.choices][-1] == "tool_calls"


def test_a_conversation_goes_on_by_its_id(served: DaemonProcess) -> None:
    """The follow-up is what the whole conversation would have given, and what was said before is not computed again."""
    with openai.OpenAI(**key(served)) as client:
        first = client.responses.create(**RESPONSE)
        more: Any = RESPONSE | {"input": "And tomorrow?"}
        second = client.responses.create(**more, previous_response_id=first.id)
        items: list[Any] = [
            {"role": "user", "content": QUESTION},
            {"role": "assistant", "content": first.output_text},
            {"role": "user", "content": "And tomorrow?"},
        ]
        whole = client.responses.create(**RESPONSE | {"input": items})
        assert client.responses.retrieve(first.id) == first
        asked = client.responses.input_items.list(second.id, order="asc", limit=2).data
        rest = client.responses.input_items.list(second.id, order="asc", after=asked[-1].id).data
        told = [(item.role, item.content[0].text) for item in (*asked, *rest)]  # type: ignore[union-attr]
        assert told == [(item["role"], item["content"]) for item in items]
        client.responses.delete(first.id)
        for look in (client.responses.retrieve, client.responses.delete):
            with pytest.raises(openai.NotFoundError):
                look(first.id)
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(**more, previous_response_id="resp_none")
    assert second.output_text == whole.output_text
    assert second.usage is not None
    assert second.usage.input_tokens_details.cached_tokens > 10
    assert caught.value.code == "previous_response_not_found"


def test_the_best_two_of_three(served: DaemonProcess) -> None:
    """The elected answer is the first of them, and all three are paid for."""
    asked: dict[str, Any] = {"model": "small", "prompt": "2 + 2 =", "temperature": 0, "seed": 5, "best_of": 3}
    own: dict[str, Any] = {"extra_body": {"reame": {"choice": ["four", "five", "six"], "early_stop": False}}}
    # Its own type of a completion wants a reason of the end in every chunk of a stream.
    with openai.OpenAI(**key(served) | {"_strict_response_validation": False}) as client:
        one = client.completions.create(**asked, **own)
        two = client.completions.create(**asked, **own, n=2)
        chunks = list(client.completions.create(**asked, **own, n=2, stream=True))
        with pytest.raises(openai.BadRequestError, match="best_of is 3 and n is 4"):
            client.completions.create(**asked, n=4)
    texts = [choice.text for choice in two.choices]
    assert texts[0] == one.choices[0].text
    assert one.usage is not None
    assert two.usage is not None
    assert two.usage.completion_tokens == one.usage.completion_tokens
    assert two.usage.prompt_tokens == one.usage.prompt_tokens
    streamed = ["".join(c.text for chunk in chunks for c in chunk.choices if c.index == index) for index in range(2)]
    assert streamed == texts


def test_elections_in_other_protocols(served: DaemonProcess) -> None:
    """Three candidates of which one is elected, whichever way they are asked for; a stream tells of it in comments."""
    seed: dict[str, Any] = {"temperature": 0, "seed": 5, "best_of": 3, "reame": {"vote": "text", "answers": False}}
    ways: dict[str, dict[str, Any]] = {
        "chat/completions": {"messages": MESSAGES, "max_tokens": 6},
        "responses": {"input": QUESTION, "max_output_tokens": 6},
        "messages": {"messages": MESSAGES, "max_tokens": 6},
    }
    told = {}
    for path, body in ways.items():
        url = f"{served.url}/v1/{path}"
        whole = httpx2.post(url, json=seed | body, timeout=240, trust_env=False)
        stream = httpx2.post(url, json=seed | body | {"stream": True}, timeout=240, trust_env=False)
        assert stream.text.count(": conclave: ") == 2
        told[path] = whole.json()
    election = [answer["reame"]["conclave"] for answer in told.values()]
    assert [each["candidates"] for each in election] == [3] * 3
    assert len({str(each["groups"]) for each in election}) == 1
    text = told["chat/completions"]["choices"][0]["message"]["content"]
    assert told["responses"]["output"][0]["content"][0]["text"] == text
    assert told["messages"]["content"][0]["text"] == text
    assert told["messages"]["usage"]["output_tokens"] == told["responses"]["usage"]["output_tokens"] == 18
