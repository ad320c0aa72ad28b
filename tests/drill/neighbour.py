"""Decode speed alone and beside one busy process, in turns: medians and their ratio.

Only worth reading on a machine where nobody else works; the drill says how much others take.
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

import psutil
import trio
from _drill import arguments, serving, verdict
from streams import streaming
from talking import COMPLETIONS, ENDLESS, ask, connect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from httpx2 import AsyncClient


@contextmanager
def busy_process() -> Iterator[None]:
    code = "print(flush=True)\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            yield
        finally:
            busy.kill()


async def rate(client: AsyncClient, count: int) -> float:
    """Tokens a second after the first. The text is new each time: one that was written before is drafted."""
    seed = time.monotonic_ns() % 10**9
    asked = ask(f"Once upon a time {seed}", count, temperature=1, seed=seed, logit_bias=ENDLESS)
    async with streaming(client, COMPLETIONS, asked) as opened:
        await opened.piece()
        started = time.perf_counter()
        await opened.rest()
    return (count - 1) / (time.perf_counter() - started)


async def main() -> int:
    options = arguments(__doc__, count=7, tokens=96, at_most=2.3)
    others = psutil.cpu_percent(1) / 100 * (psutil.cpu_count() or 1)
    print(f"others take {others:.2f} cores" + (": the numbers mean little" if others > 0.1 else ""))
    alone, beside = [], []
    with serving(memory={"answers": False}) as daemon:
        async with connect(daemon) as client:
            await rate(client, options.tokens)
            for _ in range(options.count):
                alone.append(await rate(client, options.tokens))
                with busy_process():
                    beside.append(await rate(client, options.tokens))
                print(f"alone {alone[-1]:.1f}, beside a busy process {beside[-1]:.1f} tok/s", flush=True)
    slowdown = median(alone) / median(beside)
    print(f"medians: alone {median(alone):.1f}, beside {median(beside):.1f} tok/s: {slowdown:.2f} times slower")
    return verdict([f"more than {options.at_most} times slower"] if slowdown > options.at_most else [])


if __name__ == "__main__":
    sys.exit(trio.run(main))
