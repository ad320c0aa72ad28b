"""The official client against a real server: what it parses, it accepts."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import openai
import pytest
import trio
from scripted import MODEL, ScriptedIntake, finish, serving

from reame.core.events import Delta, Finish, TokenLogprob, Usage
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.filterwarnings("ignore:Async generator '(openai|httpx2|httpcore2):ResourceWarning")
"""The client leaves its own generators unfinished, and Trio remarks upon it."""

TOKEN = TokenLogprob(7, b"a", -0.5, ((7, b"a", -0.5), (8, b"b", -1.0)))
MESSAGES: list[dict[str, str]] = [{"role": "user", "content": "hi"}]


@asynccontextmanager
async def connected(
    intake: ScriptedIntake, prefix: str = "/v1", *, strict: bool = True
) -> AsyncIterator[openai.AsyncOpenAI]:
    """A client that, when `strict`, refuses what does not fit its types."""
    async with serving(intake) as served:
        url = served.url + prefix
        async with openai.AsyncOpenAI(
            base_url=url, api_key="unused", max_retries=0, _strict_response_validation=strict
        ) as client:
            yield client


@pytest.mark.parametrize("prefix", ["/v1", "/v1/", ""])
async def test_chat(intake: ScriptedIntake, prefix: str) -> None:
    async with connected(intake, prefix) as client:
        reply = await client.chat.completions.create(model=MODEL, messages=MESSAGES, n=2)
    assert [choice.message.content for choice in reply.choices] == ["Hello", "Hello"]
    assert reply.choices[0].message.refusal is None
    assert "refusal" in reply.choices[0].message.model_fields_set
    assert reply.usage.prompt_tokens_details.cached_tokens == 2
    assert reply.system_fingerprint == "fp_test"


async def test_chat_stream(intake: ScriptedIntake) -> None:
    async with connected(intake) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=MESSAGES, stream=True, n=2, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert len({(chunk.id, chunk.created) for chunk in chunks}) == 1
    texts = {0: "", 1: ""}
    roles: dict[int, list[str | None]] = {0: [], 1: []}
    for chunk in chunks[:-1]:
        (choice,) = chunk.choices
        roles[choice.index].append(choice.delta.role)
        texts[choice.index] += choice.delta.content or ""
    assert texts == {0: "Hello", 1: "Hello"}
    assert roles == {0: ["assistant", None, None, None], 1: ["assistant", None, None, None]}
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 4


async def test_the_stream_helper(intake: ScriptedIntake) -> None:
    async with connected(intake) as client, client.chat.completions.stream(model=MODEL, messages=MESSAGES) as stream:
        final = await stream.get_final_completion()
    assert final.choices[0].message.content == "Hello"
    assert final.choices[0].finish_reason == "stop"


async def test_logprobs(intake: ScriptedIntake) -> None:
    intake.script = lambda _: [(0, Delta(text="a", logprobs=(TOKEN,))), (0, finish())]
    async with connected(intake) as client:
        chat = await client.chat.completions.create(model=MODEL, messages=MESSAGES, logprobs=True, top_logprobs=2)
        text = await client.completions.create(model=MODEL, prompt="hi", logprobs=2)
    assert chat.choices[0].logprobs.content[0].top_logprobs[1].token == "b"
    assert text.choices[0].logprobs.text_offset == [0]
    assert text.choices[0].logprobs.top_logprobs == [{"a": -0.5, "b": -1.0}]


async def test_completions(intake: ScriptedIntake) -> None:
    async with connected(intake) as client:
        whole = await client.completions.create(model=MODEL, prompt=[[1, 2], [3]])
    assert [choice.text for choice in whole.choices] == ["Hello", "Hello"]


async def test_completion_stream(intake: ScriptedIntake) -> None:
    """Not strict: the client's types want a finish_reason in each chunk, though OpenAI sends it in the last only."""
    async with connected(intake, strict=False) as client:
        stream = await client.completions.create(model=MODEL, prompt=["a", "b"], stream=True, echo=True)
        texts = ["", ""]
        async for chunk in stream:
            texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == ["aHello", "bHello"]


async def test_models(intake: ScriptedIntake) -> None:
    async with connected(intake) as client:
        assert [model.id async for model in client.models.list()] == [MODEL]
        assert (await client.models.retrieve(MODEL)).created == 1_700_000_000


async def test_errors_have_the_clients_own_classes(intake: ScriptedIntake) -> None:
    async with connected(intake) as client:
        with pytest.raises(openai.BadRequestError) as bad:
            await client.chat.completions.create(model=MODEL, messages=MESSAGES, temperature=9)
        with pytest.raises(openai.NotFoundError) as missing:
            await client.chat.completions.create(model="gpt-5", messages=MESSAGES)
        intake.refusal = RequestError("full", status=429, retry_after=2)
        with pytest.raises(openai.RateLimitError):
            await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
    assert bad.value.param == "temperature"
    assert missing.value.code == "model_not_found"


async def test_an_error_in_a_stream_is_raised(intake: ScriptedIntake) -> None:
    usage = Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)
    broken = Finish(reason=None, usage=usage, error=RequestError("stopping", status=503, code="server_stopping"))
    intake.script = lambda _: [(0, Delta(text="a")), (0, broken)]
    async with connected(intake) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
        with pytest.raises(openai.APIError, match="stopping") as caught:
            async for _ in stream:
                pass
    assert caught.value.code == "server_stopping"


async def test_the_synchronous_client(intake: ScriptedIntake) -> None:
    def talk(url: str) -> str:
        with openai.OpenAI(base_url=url, api_key="unused", max_retries=0) as client:
            chunks = client.chat.completions.create(model=MODEL, messages=MESSAGES, stream=True)
            return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    async with serving(intake) as served:
        assert await trio.to_thread.run_sync(talk, served.url + "/v1") == "Hello"
