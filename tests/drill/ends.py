"""Starts and ends, again and again on one memory directory: SIGTERM, SIGINT, SIGTERM twice, SIGKILL, a pause (SIGSTOP),
a signal while it loads; each at a random moment of a random load.

What must hold: the exit status that is promised; after a first SIGTERM every stream that had begun ends whole; the next
daemon starts on what the last one left, and a fixed question gets the answer that it always got.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

import h11
import trio
from _drill import WORDS, arguments, scratch, start, verdict
from attrs import define, field
from httpx2 import HTTPError
from streams import streaming
from talking import COMPLETIONS, ask, connect, text_of

if TYPE_CHECKING:
    from pathlib import Path

    from daemon_process import DaemonProcess

FIXED = ask("The five largest cities of Europe are", 24)
USERS = 24
"""Four are served, and twenty wait."""
LENGTHS = (2, 10, 40, 120)
"""Words of a prompt: some end in the first step, some are read for several."""
GONE = (HTTPError, h11.RemoteProtocolError, OSError, trio.BrokenResourceError)
"""What a client gets whose daemon ends, or has not begun."""
Expected = tuple[int, ...]
"""Exit statuses: a second SIGTERM gives 1, or comes when the first one has done all."""


@define
class Ends:
    folder: Path
    random: Random
    faults: list[str] = field(factory=list)
    text: str = ""
    broken: int = 0

    def start(self) -> DaemonProcess:
        tables: dict[str, dict[str, object]] = {
            "engine": {"slots": 4, "context": 512, "batch_rows": 64},
            "memory": {"answers": False, "disk_mb": 8},
        }
        return start(self.folder, tables)

    async def serve(self, numbers: list[signal.Signals], expected: Expected) -> None:
        """Load it, send it `numbers` at a random moment, and see how it ends."""
        daemon = self.start()
        with daemon:
            await trio.to_thread.run_sync(daemon.wait_ready)
            async with connect(daemon) as client:
                text = await text_of(client, COMPLETIONS, FIXED)
            self.text = self.text or text
            if text != self.text:
                self.faults.append(f"{text!r} instead of {self.text!r}")
            async with trio.open_nursery() as users:
                for _ in range(USERS):
                    users.start_soon(self.user, daemon, expected == (0,))
                await trio.sleep(self.random.uniform(0, 2))
                for number in numbers:
                    daemon.send(number)
                    await trio.sleep(self.random.uniform(0, 0.5))
                status = await trio.to_thread.run_sync(daemon.wait_exit)
            self.check(daemon, numbers, status, expected)

    async def user(self, daemon: DaemonProcess, whole: bool) -> None:
        """One stream after the other until nobody answers any more. One that has begun must end `whole`."""
        async with connect(daemon) as client:
            while True:
                length = self.random.choice(LENGTHS)
                body: dict[str, Any] = ask(" ".join(self.random.choices(WORDS, k=length)), 24)
                begun = False
                try:
                    async with streaming(client, COMPLETIONS, body, refusals={503}) as opened:
                        if opened.status == 503:
                            return
                        begun = await opened.piece()
                        told = await opened.rest()
                        if not told.is_done and whole:
                            self.faults.append(f"a stream ended with {told.error}")
                except GONE as error:
                    self.broken += begun
                    if begun and whole:
                        self.faults.append(f"a stream broke off: {error!r}")
                    return

    async def load(self) -> None:
        """A signal before it is ready."""
        daemon = self.start()
        with daemon:
            await trio.sleep(self.random.uniform(0, 1.5))
            await trio.to_thread.run_sync(daemon.wait_listening)
            daemon.send(signal.SIGTERM)
            self.check(daemon, [signal.SIGTERM], await trio.to_thread.run_sync(daemon.wait_exit), (0,))

    def check(self, daemon: DaemonProcess, numbers: list[signal.Signals], status: int, expected: Expected) -> None:
        if status not in expected or "Traceback" in daemon.log or " ERROR " in daemon.log:
            names = " ".join(number.name for number in numbers)
            self.faults.append(f"after {names}: exit status {status}, not of {expected}\n{daemon.log}")


async def main() -> int:
    options = arguments(__doc__, count=30, seed=1)
    kill, term, stop, go_on = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT
    ways: list[tuple[list[signal.Signals], Expected]] = [
        ([term], (0,)), ([kill], (-kill,)), ([signal.SIGINT], (0,)), ([stop, go_on, term], (0,)),
        ([stop, kill], (-kill,)), ([], (0,)), ([term, term], (1, 0)),
    ]  # fmt: skip
    done: Counter[str] = Counter()
    with scratch() as folder:
        ends = Ends(folder, Random(options.seed))
        for number in range(options.count):
            numbers, expected = ways[number % len(ways)]
            if numbers:
                await ends.serve(numbers, expected)
            else:
                await ends.load()
            done[" ".join(each.name for each in numbers) or "SIGTERM while loading"] += 1
            print(f"{number + 1}: {dict(done)}, {len(ends.faults)} faults", flush=True)
    print(f"streams broken off by SIGKILL: {ends.broken}")
    return verdict(ends.faults)


if __name__ == "__main__":
    sys.exit(trio.run(main))
