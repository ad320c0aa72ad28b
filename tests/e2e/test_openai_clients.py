"""The clients that people have, against the whole program: openai-python in its three ways of waiting, and curl."""

from __future__ import annotations

import asyncio
import json
import subprocess
from typing import TYPE_CHECKING, Any

import openai
import pytest

if TYPE_CHECKING:
    from daemon_process import DaemonProcess

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")
"""The client leaves its own generators unfinished, and Trio remarks upon it."""

MODEL = "smollm2-135m"
MESSAGES: list[Any] = [{"role": "user", "content": "Name three rivers of Europe."}]
CHAT: dict[str, Any] = {"model": MODEL, "messages": MESSAGES, "max_tokens": 12, "temperature": 0}
TEXT: dict[str, Any] = {"model": MODEL, "prompt": "The capital of France is", "temperature": 0, "max_tokens": 6}
USAGE: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}


def key(daemon: DaemonProcess) -> dict[str, Any]:
    """Strict: the client refuses what does not fit its types."""
    return {"base_url": f"{daemon.url}/v1", "api_key": "none", "max_retries": 0, "_strict_response_validation": True}


def check_chat(whole: Any, chunks: list[Any]) -> None:
    """A chat and the same streamed: one text, one account."""
    (choice,) = whole.choices
    assert choice.message.content
    assert choice.message.role == "assistant"
    assert choice.finish_reason == "length"
    *parts, last = chunks
    assert "".join(part.choices[0].delta.content or "" for part in parts) == choice.message.content
    assert [part.choices[0].finish_reason for part in parts if part.choices[0].finish_reason] == ["length"]
    assert [part.choices[0].delta.role for part in parts].count("assistant") == 1
    assert last.choices == []
    assert (last.usage.completion_tokens, last.usage.prompt_tokens) == (12, whole.usage.prompt_tokens)
    assert whole.usage.completion_tokens == 12
    assert len({part.id for part in chunks}) == 1
    assert {whole.model, *(part.model for part in chunks)} == {MODEL}


def test_the_synchronous_client(daemon: DaemonProcess) -> None:
    with openai.OpenAI(**key(daemon)) as client:
        whole = client.chat.completions.create(**CHAT)
        check_chat(whole, list(client.chat.completions.create(**CHAT, **USAGE)))
        assert client.completions.create(**TEXT).choices[0].text.startswith(" Paris")
        (model,) = client.models.list().data
        assert client.models.retrieve(model.id) == model


async def converse(daemon: DaemonProcess) -> None:
    """The asynchronous client, on whatever runs this coroutine."""
    async with openai.AsyncOpenAI(**key(daemon)) as client:
        whole = await client.chat.completions.create(**CHAT)
        stream = await client.chat.completions.create(**CHAT, **USAGE)
        check_chat(whole, [chunk async for chunk in stream])
        text = await client.completions.create(**TEXT)
        assert text.choices[0].text.startswith(" Paris")


def test_the_asynchronous_client_on_asyncio(daemon: DaemonProcess) -> None:
    asyncio.run(converse(daemon))


async def test_the_asynchronous_client_on_trio(daemon: DaemonProcess) -> None:
    await converse(daemon)


def test_options_that_a_client_has(daemon: DaemonProcess) -> None:
    with openai.OpenAI(**key(daemon)) as client:
        several = client.chat.completions.create(**CHAT | {"n": 3, "temperature": 1.5, "seed": 11})
        again = client.chat.completions.create(**CHAT | {"n": 3, "temperature": 1.5, "seed": 11})
        texts = [choice.message.content for choice in several.choices]
        assert [choice.index for choice in several.choices] == [0, 1, 2]
        assert len(set(texts)) == 3
        assert texts == [choice.message.content for choice in again.choices]
        assert several.usage.completion_tokens == 36

        looked = client.chat.completions.create(**CHAT, logprobs=True, top_logprobs=3)
        content = looked.choices[0].logprobs.content
        assert len(content) == 12
        assert b"".join(bytes(token.bytes) for token in content).decode() == looked.choices[0].message.content
        assert all(token.logprob == token.top_logprobs[0].logprob for token in content)

        full = client.completions.create(**TEXT | {"max_tokens": 20}).choices[0].text
        cut = client.completions.create(**TEXT | {"max_tokens": 20}, stop=[full[8:12]])
        assert (cut.choices[0].text, cut.choices[0].finish_reason) == (full[: full.index(full[8:12])], "stop")


def test_a_mistake_is_the_clients_own_exception(daemon: DaemonProcess) -> None:
    with openai.OpenAI(**key(daemon)) as client:
        with pytest.raises(openai.BadRequestError) as bad:
            client.chat.completions.create(**CHAT | {"temperature": 9})
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(**CHAT | {"model": "gpt-5"})
        with pytest.raises(openai.BadRequestError) as long:
            client.completions.create(**TEXT | {"prompt": "word " * 3000}, stream=True)
    assert bad.value.param == "temperature"
    assert long.value.code == "context_length_exceeded"


def curl(*words: str) -> str:
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "120", *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_curl(daemon: DaemonProcess) -> None:
    url, json_type = f"{daemon.url}/v1/chat/completions", ("-H", "Content-Type: application/json")
    body = json.dumps({"messages": MESSAGES, "max_tokens": 12, "temperature": 0})
    whole = json.loads(curl(url, *json_type, "-d", body))
    told = curl("-N", "-i", url, *json_type, "-d", body[:-1] + ', "stream": true}')
    head, _, events = told.replace("\r\n", "\n").partition("\n\n")
    assert "content-type: text/event-stream; charset=utf-8" in head.lower()
    data = [line.removeprefix("data: ") for line in events.split("\n") if line]
    assert data.pop() == "[DONE]"
    texts = [json.loads(event)["choices"][0]["delta"].get("content", "") for event in data]
    assert "".join(texts) == whole["choices"][0]["message"]["content"]
    assert json.loads(curl(f"{daemon.url}/health"))["status"] == "ok"
