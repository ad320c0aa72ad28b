"""What the tests say to a daemon and how they read what it answers: bodies, whole answers, metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import trio
from daemon_process import PATIENCE_S, Readings
from httpx2 import AsyncClient, Limits

if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon_process import DaemonProcess

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
ENDLESS = {"0": -100, "2": -100}
"""A logit_bias that bans SmolLM2's ends of generation: an answer goes on to its limit."""
LETTER_A = 81
"""SmolLM2's token for "a"; the other small letters follow."""


def connect(daemon: DaemonProcess, key: str = "") -> AsyncClient:
    """As many connections as one likes, none of them reused by chance after it was closed in the middle."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    limits = Limits(max_connections=None, max_keepalive_connections=0)
    return AsyncClient(base_url=daemon.url, timeout=PATIENCE_S, limits=limits, headers=headers, trust_env=False)


def ask(prompt: str | list[int] | list[str], max_tokens: int = 8, **more: Any) -> dict[str, Any]:
    """A completion's body, greedy."""
    return {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0} | more


def say(text: str, max_tokens: int = 8, **more: Any) -> dict[str, Any]:
    """A chat's body, greedy."""
    messages = [{"role": "user", "content": text}]
    return {"messages": messages, "max_tokens": max_tokens, "temperature": 0} | more


def tokens(count: int, salt: int = 0) -> list[int]:
    """A prompt of exactly `count` token ids, one letter again and again; prompts with other `salt` share no prefix."""
    return [LETTER_A + salt % 26] * count


async def answer(client: AsyncClient, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a whole answer, which must be a 200."""
    response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def text_of(client: AsyncClient, path: str, body: dict[str, Any]) -> str:
    """The text of the only choice."""
    (choice,) = (await answer(client, path, body))["choices"]
    text: str = choice["text"] if path == COMPLETIONS else choice["message"]["content"]
    return text


async def readings(client: AsyncClient) -> Readings:
    response = await client.get("/metrics")
    assert response.status_code == 200, response.text
    return Readings(response.text)


async def health(client: AsyncClient) -> dict[str, Any]:
    response = await client.get("/health")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def until_busy(client: AsyncClient, running: int, waiting: int = 0) -> None:
    """Asks /metrics until that many sequences run and wait."""
    await until(client, lambda seen: (seen["running_sequences"], seen["waiting_sequences"]) == (running, waiting))


async def until_idle(client: AsyncClient) -> Readings:
    """Asks /metrics until nothing runs or waits; the readings of that moment."""
    return await until(client, lambda seen: not seen["running_sequences"] and not seen["waiting_sequences"])


async def until(client: AsyncClient, holds: Callable[[Readings], bool]) -> Readings:
    """Asks /metrics again and again until it `holds`."""
    with trio.fail_after(PATIENCE_S):
        while not holds(seen := await readings(client)):
            pass
    return seen
