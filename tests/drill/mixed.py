"""Fifty clients at once, for minutes: chats, completions, streams, several choices, logprobs, long prompts and too long
ones, bad bodies, clients that leave. Every request is unique.

What must hold: only answers that the documentation knows; every request is answered or refused; health answers all the
while; memory (anonymous and swapped), file descriptors and threads stay flat after the first requests; a clean end.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import h11
import trio
from _drill import WORDS, arguments, serving, verdict
from _watch import Watch
from attrs import define, field
from daemon_process import PATIENCE_S, status_fields
from httpx2 import HTTPError
from streams import streaming
from talking import CHAT, COMPLETIONS, ask, connect, say, until_idle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient

CONTEXT = 512
REFUSALS = {429, 503}
SETTLE_S = 6.0
"""Longer than the daemon lingers over a connection whose client was still sending (413)."""
FDS_MORE = 4
"""File descriptors that the daemon may have open after all that, beyond those that it had after its first answer, when
the old answers and the archive are open: what is being written."""
BAD: list[tuple[str, bytes, int]] = [
    (CHAT, b"{", 400),
    (CHAT, b"[]", 400),
    (CHAT, b'{"messages": []}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', 400),
    (CHAT, b'{"messages": [{"role": "user", "content": "\xff"}]}', 400),
    (COMPLETIONS, b'{"prompt": [[]]}', 400),
    (COMPLETIONS, b'{"prompt": "x", "n": 1000}', 400),
    (COMPLETIONS, b'{"prompt": "x", "model": "gpt-5"}', 404),
    (COMPLETIONS, b'{"prompt": "' + b"x" * (2 << 20) + b'"}', 413),
    ("/v1/nothing", b"{}", 404),
]


@define
class Play:
    """What the clients do and what came of it."""

    client: AsyncClient
    random: Random
    until: float
    outcomes: Counter[str] = field(factory=Counter)
    faults: list[str] = field(factory=list)
    number: int = 0

    @property
    def num_served(self) -> int:
        return sum(count for outcome, count in self.outcomes.items() if outcome.endswith(("200", "left")))

    async def act(self) -> None:
        """One client: one thing after the other until the time is up."""
        ways: list[tuple[Callable[[], Awaitable[str]], int]] = [
            (self.whole, 6), (self.stream, 6), (self.leave, 4), (self.give_up, 3), (self.refused, 3), (self.bad, 2),
        ]  # fmt: skip
        while time.monotonic() < self.until:
            (way,) = self.random.choices([way for way, _ in ways], [weight for _, weight in ways])
            self.number += 1
            try:
                with trio.fail_after(PATIENCE_S):
                    outcome = await way()
                self.outcomes[f"{way.__name__}: {outcome}"] += 1
                if outcome in ("429", "503"):
                    await trio.sleep(self.random.uniform(0.1, 2))
            except (HTTPError, h11.RemoteProtocolError, OSError, trio.TooSlowError, AssertionError, KeyError) as error:
                self.faults.append(f"{way.__name__}: {type(error).__name__} {error}")

    def body(self) -> tuple[str, dict[str, Any]]:
        random = self.random
        text = f"{self.number} {' '.join(random.choices(WORDS, k=random.choice([5, 20, 20, 60, 250])))}"
        more: dict[str, Any] = {"temperature": random.choice([0, 0.7, 1.2])}
        more["n"] = random.choices([1, 2, 4], [8, 1, 1])[0]
        chat = random.random() < 0.5
        if random.random() < 0.25:
            more |= {"logprobs": True, "top_logprobs": 3} if chat else {"logprobs": 3}
        if random.random() < 0.2:
            more["stop"] = random.sample(WORDS, 3)
        length = random.randint(1, 24)
        return (CHAT, say(text, length, **more)) if chat else (COMPLETIONS, ask(text, length) | more)

    async def whole(self) -> str:
        path, body = self.body()
        response = await self.client.post(path, json=body)
        if response.status_code == 200:
            check(body, response.json()["choices"], response.json()["usage"])
        else:
            assert response.status_code in REFUSALS, f"{response.status_code} {response.text} for {str(body)[:300]}"
            assert int(response.headers["Retry-After"]) > 0
        return str(response.status_code)

    async def stream(self) -> str:
        path, body = self.body()
        async with streaming(self.client, path, body, refusals=REFUSALS) as opened:
            if opened.status in REFUSALS:
                return str(opened.status)
            told = await opened.rest()
            assert told.error is None, told.error
            assert told.is_done
            assert len(told.reasons) == body.get("n", 1)
        return "200"

    async def leave(self) -> str:
        """Goes away in the middle of a stream, or before its first word."""
        path, body = self.body()
        async with streaming(self.client, path, body, refusals=REFUSALS) as opened:
            if opened.status in REFUSALS:
                return str(opened.status)
            for _ in range(self.random.randint(0, 6)):
                await opened.piece()
        return "left"

    async def give_up(self) -> str:
        """Goes away while it waits for a whole answer."""
        path, body = self.body()
        with trio.move_on_after(self.random.expovariate(1)):
            response = await self.client.post(path, json=body)
            assert response.status_code in {200} | REFUSALS, f"{response.status_code} {response.text}"
            return str(response.status_code)
        return "left"

    async def refused(self) -> str:
        prompt = [self.number % 40_000] * (CONTEXT + self.number % 9)
        response = await self.client.post(COMPLETIONS, json=ask(prompt, 4))
        code = response.json()["error"]["code"]
        assert response.status_code in {400} | REFUSALS, f"{response.status_code} {response.text}"
        assert response.status_code != 400 or code == "context_length_exceeded"
        return str(response.status_code)

    async def bad(self) -> str:
        path, content, expected = self.random.choice(BAD)
        response = await self.client.post(path, content=content, headers={"Content-Type": "application/json"})
        assert response.status_code == expected, f"{response.status_code} for {content[:80]!r}"
        assert set(response.json()["error"]) == {"message", "type", "param", "code"}
        return str(response.status_code)


def check(body: dict[str, Any], choices: list[dict[str, Any]], usage: dict[str, int]) -> None:
    """A whole answer is of one piece."""
    n = body.get("n", 1)
    assert [choice["index"] for choice in choices] == list(range(n))
    assert {choice["finish_reason"] for choice in choices} <= {"stop", "length"}
    assert 0 < usage["completion_tokens"] <= n * body["max_tokens"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    json.dumps(choices).encode()


async def settled(daemon: DaemonProcess, most_fds: int) -> dict[str, Any]:
    """The daemon's status once it has no more than `most_fds` open, or has had the time to close them."""
    with trio.move_on_after(SETTLE_S):
        while status_fields(daemon.process.pid)["fds"] > most_fds:  # noqa: ASYNC110 - of another process
            await trio.sleep(0.1)
    return status_fields(daemon.process.pid)


async def drill(daemon: DaemonProcess, clients: int, minutes: float, seed: int) -> list[str]:
    async with connect(daemon) as client:
        (await client.post(COMPLETIONS, json=ask("First of all", 32, temperature=0))).raise_for_status()
        await until_idle(client)
        before = status_fields(daemon.process.pid)
        play = Play(client, Random(seed), time.monotonic() + 60 * minutes)
        watch = Watch(daemon, client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.look, lambda: play.num_served)
            async with trio.open_nursery() as players:
                for _ in range(clients):
                    players.start_soon(play.act)
            nursery.cancel_scope.cancel()
        seen = await until_idle(client)
        after = await settled(daemon, before["fds"] + FDS_MORE)
    print(f"{play.number} requests: {dict(sorted(play.outcomes.items()))}")
    print(f"the daemon counted {seen.outcomes()}, {seen['preemptions_total']:.0f} preemptions")
    faults = play.faults + watch.faults + watch.growth()
    faults += [f"fds: {before['fds']} before, {after['fds']} after"] if after["fds"] > before["fds"] + FDS_MORE else []
    faults += [f"{seen['step_errors_total']:.0f} steps failed"] if seen["step_errors_total"] else []
    faults += [line for line in daemon.log.splitlines() if " ERROR " in line or "Traceback" in line]
    return faults


async def main() -> int:
    options = arguments(__doc__, minutes=3.0, clients=50, seed=1)
    with serving(
        engine={"slots": 8, "context": CONTEXT, "cells": 1024, "residents": 8},
        scheduler={"queue": 32, "reserve_tokens": 16},
        server={"max_body_mb": 1},
        memory={"disk_mb": 32},
    ) as daemon:
        faults = await drill(daemon, options.clients, options.minutes, options.seed)
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(trio.run(main))
