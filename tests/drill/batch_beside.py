"""The gaps of a stream alone, and of one that begins while a batch is under way, in turns: their 95th percentiles.

Only worth reading on a machine where nobody else works; the drill says how much others take.
"""

from __future__ import annotations

import sys
import time
from contextlib import asynccontextmanager
from itertools import pairwise
from statistics import median, quantiles
from typing import TYPE_CHECKING

import psutil
import trio
from _drill import WORDS, arguments, serving, verdict
from streams import streaming
from talking import CHAT, COMPLETIONS, ENDLESS, ask, connect, say, until, until_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from httpx2 import AsyncClient

AT_ONCE = 16
LEAST = 0.9
"""Of its speed alone a stream keeps so much, at the 95th percentile of its gaps."""


async def late_gap(client: AsyncClient, count: int) -> float:
    """The 95th percentile, in seconds, of the gaps between pieces after the first. The text is new each time: one that
    was written before comes in a few large pieces."""
    times = []
    seed = time.monotonic_ns() % 10**9
    asked = ask(f"Once upon a time {seed}", count, temperature=1, seed=seed, logit_bias=ENDLESS)
    async with streaming(client, COMPLETIONS, asked) as opened:
        while await opened.piece():
            times.append(time.perf_counter())
    return quantiles([after - before for before, after in pairwise(times)], n=20)[-1]


@asynccontextmanager
async def a_batch(client: AsyncClient) -> AsyncIterator[None]:
    """As many records as there are slots, again and again, from when all of them run until the block ends."""
    async with trio.open_nursery() as nursery:
        for number in range(AT_ONCE):
            nursery.start_soon(_records, client, number)
        await until(client, lambda seen: seen["running_sequences"] >= AT_ONCE / 2)
        yield
        nursery.cancel_scope.cancel()
    await until_idle(client)


async def _records(client: AsyncClient, number: int) -> None:
    count = 0
    while True:
        count += 1
        text = f"Which group has the {WORDS[number]} number {count}? " + " ".join(WORDS * 5)
        await client.post(CHAT, json=say(text, 60, logit_bias=ENDLESS, reame={"background": True}))


def tell(what: str, alone: list[float], beside: list[float]) -> float:
    """The share of its speed alone that the stream keeps."""
    once, then = median(alone), median(beside)
    print(f"{what}: alone {1e3 * once:.1f} ms, beside a batch {1e3 * then:.1f} ms: {once / then:.0%}", flush=True)
    return once / then


async def main() -> int:
    options = arguments(__doc__, count=7, tokens=96, least=LEAST)
    others = psutil.cpu_percent(1) / 100 * (psutil.cpu_count() or 1)
    print(f"others take {others:.2f} cores" + (": the numbers mean little" if others > 0.1 else ""))
    alone, beside = [], []
    with serving(memory={"answers": False}) as daemon:
        async with connect(daemon) as client:
            await late_gap(client, options.tokens)
            for _ in range(options.count):
                alone.append(await late_gap(client, options.tokens))
                async with a_batch(client):
                    beside.append(await late_gap(client, options.tokens))
                tell("p95 of gaps", alone[-1:], beside[-1:])
    share = tell("medians", alone, beside)
    return verdict([f"less than {options.least:.0%} of its speed"] if share < options.least else [])


if __name__ == "__main__":
    sys.exit(trio.run(main))
