"""Losslessness through the whole program: many prompts, greedy and seeded, alone and by eight users at once.

The users come and go, and the daemon's cache is so small that sequences are evicted, moved, put back and loaded from
disk all the time. Whoever asks gets the same text.
"""

from __future__ import annotations

import sys
from random import Random
from typing import TYPE_CHECKING, Any

import trio
from _drill import WORDS, arguments, serving, verdict
from attrs import define, field
from streams import stream, streaming
from talking import COMPLETIONS, ask, connect, readings, text_of

if TYPE_CHECKING:
    from daemon_process import Readings
    from httpx2 import AsyncClient

USERS = 8
LONGEST_ANSWER = 32


def bodies(count: int, random: Random) -> list[dict[str, Any]]:
    """Each prompt greedy and seeded; three in four have one of four common beginnings."""
    stems = [" ".join(random.choices(WORDS, k=random.randint(20, 60))) for _ in range(4)]
    made = []
    for number in range(count):
        stem = random.choice(stems) if number % 4 else ""
        text = f"{stem} {' '.join(random.choices(WORDS, k=random.randint(2, 30)))}"
        length = random.randint(4, LONGEST_ANSWER)
        made += [ask(text, length), ask(text, length) | {"temperature": 0.9, "seed": number}]
    return made


@define
class Crowd:
    """Users who ask for all of `todo`, one after the other each, and sometimes leave in the middle and ask anew."""

    client: AsyncClient
    random: Random
    todo: list[tuple[int, dict[str, Any]]]
    texts: dict[int, str] = field(factory=dict)
    num_left: int = 0

    async def ask_all(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(USERS):
                nursery.start_soon(self._user)

    async def _user(self) -> None:
        while self.todo:
            place, body = self.todo.pop()
            if self.random.random() < 0.15:
                await self._leave(body)
            if place % 2:
                self.texts[place] = (await stream(self.client, COMPLETIONS, body)).texts.get(0, "")
            else:
                self.texts[place] = await text_of(self.client, COMPLETIONS, body)

    async def _leave(self, body: dict[str, Any]) -> None:
        self.num_left += 1
        async with streaming(self.client, COMPLETIONS, body) as opened:
            for _ in range(self.random.randint(0, 5)):
                await opened.piece()


async def drill(client: AsyncClient, count: int, random: Random) -> list[str]:
    """Half are asked alone first, when nobody knows them; the other half first in the crowd."""
    asked = list(enumerate(bodies(count, random)))
    random.shuffle(asked)
    half = len(asked) // 2
    alone = {place: await text_of(client, COMPLETIONS, body) for place, body in asked[:half]}
    crowd = Crowd(client, random, random.sample(asked, len(asked)))
    await crowd.ask_all()
    alone |= {place: await text_of(client, COMPLETIONS, body) for place, body in asked[half:]}
    seen = await readings(client)
    tell(seen, crowd, len(set(alone.values())))
    faults = [
        f"{dict(asked)[place]}: alone {alone[place]!r}, in the crowd {crowd.texts[place]!r}"
        for place in alone
        if alone[place] != crowd.texts[place]
    ]
    if count >= 50:
        happened = ("preemptions_total", "cached_tokens_total", 'disk_block_events_total{event="hits"}')
        faults += [f"the drill was too easy: {name} is 0" for name in happened if not seen[name]]
    return faults


def tell(seen: Readings, crowd: Crowd, num_texts: int) -> None:
    disk = {event: int(seen[f'disk_block_events_total{{event="{event}"}}']) for event in ("hits", "stored", "evicted")}
    print(
        f"{len(crowd.texts)} requests alone and in a crowd of {USERS}, {num_texts} different texts; "
        f"{crowd.num_left} left early; {seen['preemptions_total']:.0f} preemptions; "
        f"{seen['cached_tokens_total']:.0f} of {seen['prompt_tokens_total']:.0f} prompt tokens cached; "
        f"blocks on disk: {disk}"
    )


async def main() -> int:
    options = arguments(__doc__, count=200, seed=1)
    with serving(
        engine={"slots": USERS, "context": 256, "cells": 256, "residents": 4, "batch_rows": 64},
        scheduler={"reserve_tokens": 4},
        memory={"answers": False, "disk_mb": 8},
    ) as daemon:
        async with connect(daemon) as client:
            faults = await drill(client, options.count, Random(options.seed))
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(trio.run(main))
