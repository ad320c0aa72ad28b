"""The edge of the context: what fits runs up to it and not a token further, what does not is refused with both numbers.
Prompts are token ids, so every length is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from streams import stream
from talking import CHAT, COMPLETIONS, ENDLESS, answer, ask, connect, readings, say, tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from conftest import Launch
    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient

CONTEXT = 64


@pytest.fixture(scope="module")
def daemon(launch: Launch) -> Iterator[DaemonProcess]:
    """Four sequences up to the edge fit its cells, and five do not; cells are promised a few at a time."""
    with launch(
        engine={"slots": 5, "context": CONTEXT, "cells": 256}, scheduler={"reserve_tokens": 4}
    ) as started:
        yield started.wait_ready()


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[AsyncClient]:
    async with connect(daemon) as opened:
        yield opened


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("length", [CONTEXT, CONTEXT + 1, 3 * CONTEXT])
async def test_too_long_is_refused_before_the_first_byte(client: AsyncClient, length: int, streamed: bool) -> None:
    response = await client.post(COMPLETIONS, json=ask(tokens(length), 1, stream=streamed))
    assert response.status_code == 400
    assert response.headers["Content-Type"] == "application/json"
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("context_length_exceeded", "prompt")
    assert error["message"].startswith(f"prompt is too long: {length} tokens")
    assert f"context is {CONTEXT} tokens" in error["message"]


async def test_a_chat_too_long_is_refused_too(client: AsyncClient) -> None:
    response = await client.post(CHAT, json=say("CANARYWORD " + "word " * CONTEXT))
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "context_length_exceeded"
    assert "CANARYWORD" not in response.text


@pytest.mark.parametrize("max_tokens", [1, 100, 10**9, None])
async def test_the_longest_prompt_that_fits_gives_one_token(client: AsyncClient, max_tokens: int | None) -> None:
    body = ask(tokens(CONTEXT - 1)) | {"max_tokens": max_tokens, "logit_bias": ENDLESS}
    found = await answer(client, COMPLETIONS, body)
    assert found["usage"]["total_tokens"] == CONTEXT
    assert found["choices"][0]["finish_reason"] == "length"


async def test_a_limit_that_just_fits_and_one_that_does_not(client: AsyncClient) -> None:
    """One more token asked for than there is room: the limit gives way, never the prompt."""
    for room, expected in ((10, 10), (11, 10)):
        found = await answer(client, COMPLETIONS, ask(tokens(CONTEXT - 10), room, logit_bias=ENDLESS))
        assert found["usage"]["prompt_tokens"] == CONTEXT - 10
        assert found["usage"]["completion_tokens"] == expected
        assert found["choices"][0]["finish_reason"] == "length"


async def test_five_at_once_run_to_the_edge_and_no_further(client: AsyncClient) -> None:
    """They do not fit together, so that the last is put back and comes again; each text is what it is alone."""
    body = ask("", 2000, logit_bias=ENDLESS) | {"prompt": [tokens(40, salt=place) for place in range(5)]}
    crowd = await answer(client, COMPLETIONS, body | {"max_tokens": None})
    assert (await readings(client))["preemptions_total"] > 0
    assert [choice["finish_reason"] for choice in crowd["choices"]] == ["length"] * 5
    assert crowd["usage"]["total_tokens"] == 5 * CONTEXT
    for choice, prompt in zip(crowd["choices"], body["prompt"], strict=True):
        told = await stream(client, COMPLETIONS, body | {"prompt": prompt})
        assert (told.texts[0], told.reasons[0]) == (choice["text"], "length")
