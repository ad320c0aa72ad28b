"""What the tests say to a daemon and how they read what it answers: bodies, whole answers, open streams, metrics."""

from __future__ import annotations

import json
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen
from daemon_process import PATIENCE_S, Readings
from httpx2 import AsyncClient, Limits, Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from daemon_process import DaemonProcess

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
ENDLESS = {"0": -100, "2": -100}
"""A logit_bias that bans SmolLM2's ends of generation: an answer goes on to its limit."""
LETTER_A = 81
"""SmolLM2's token for "a"; the other small letters follow."""


def connect(daemon: DaemonProcess) -> AsyncClient:
    """As many connections as one likes, none of them reused by chance after it was closed in the middle."""
    limits = Limits(max_connections=None, max_keepalive_connections=0)
    return AsyncClient(base_url=daemon.url, timeout=PATIENCE_S, limits=limits, trust_env=False)


def ask(prompt: str | list[int], max_tokens: int = 8, **more: Any) -> dict[str, Any]:
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
    """Asks /health until that many sequences run and wait."""
    while True:
        found = await health(client)
        if (found["slots"]["busy"], found["queue"]["depth"]) == (running, waiting):
            return


async def until_idle(client: AsyncClient) -> Readings:
    """Asks /metrics until nothing runs or waits; the readings of that moment."""
    while True:
        found = await readings(client)
        if not found["running_sequences"] and not found["waiting_sequences"]:
            return found


@define
class Told:
    """A stream so far: the text of each choice, how each ended, the events as they came."""

    texts: dict[int, str] = field(factory=dict)
    reasons: dict[int, str] = field(factory=dict)
    events: list[dict[str, Any]] = field(factory=list)
    comments: int = 0
    error: dict[str, Any] | None = None
    is_done: bool = False

    def take(self, line: str) -> bool:
        """A line of the body; True when it carried text."""
        assert not self.is_done or not line, f"after the end mark: {line}"
        self.comments += line.startswith(":")
        if not line.startswith("data: "):
            return False
        if line == "data: [DONE]":
            self.is_done = True
            return False
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            self.error = event["error"]
            return False
        self.events.append(event)
        return any([self._choice(choice) for choice in event["choices"]])

    def _choice(self, choice: dict[str, Any]) -> bool:
        text = choice["text"] if "text" in choice else choice["delta"].get("content", "")
        index = choice["index"]
        self.texts[index] = self.texts.get(index, "") + text
        if choice["finish_reason"]:
            self.reasons[index] = choice["finish_reason"]
        return bool(text)


@frozen
class Stream:
    """An open streamed answer. `told` is what it has said so far."""

    response: Response
    lines: AsyncIterator[str]
    told: Told

    async def piece(self) -> bool:
        """Read on to the next piece of text; False at the end."""
        async for line in self.lines:
            if self.told.take(line):
                return True
        return False

    async def rest(self) -> Told:
        while await self.piece():
            pass
        return self.told


@asynccontextmanager
async def streaming(client: AsyncClient, path: str, body: dict[str, Any]) -> AsyncIterator[Stream]:
    """Leaving it before the end closes the connection, as a client does who goes away."""
    async with client.stream("POST", path, json=body | {"stream": True}) as response:
        if response.status_code != 200:
            raise AssertionError(f"{response.status_code}: {(await response.aread()).decode()}")
        async with aclosing(response.aiter_lines()) as lines:
            yield Stream(response, lines, Told())


async def stream(client: AsyncClient, path: str, body: dict[str, Any]) -> Told:
    """A streamed answer to its end, which must be a good one."""
    async with streaming(client, path, body) as open_stream:
        told = await open_stream.rest()
    assert told.error is None
    assert told.is_done
    return told
