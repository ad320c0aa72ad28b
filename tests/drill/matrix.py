"""Losslessness, way by way: each prompt cold, over live cells, from the disk in a new process, after evictions with
little room, and in a crowd. Greedy tokens are the same in all of them.

Cold is cold: each prompt is then asked with an API key of its own, and keys share nothing. The crowd has one key, and
three of its prompts in four begin alike, so there it takes over what others compute at that moment.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import trio
from _drill import MODEL, WORDS, arguments, scratch, start, verdict
from attrs import define, field
from talking import COMPLETIONS, answer, ask, connect, until_idle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from daemon_process import DaemonProcess, Tables
    from httpx2 import AsyncClient

USERS = 8
CROWD = "crowd"
Said = tuple[str, ...]
"""The pieces of an answer's tokens."""


def prompts_of(count: int, random: Random) -> list[str]:
    stems = [" ".join(random.choices(WORDS, k=random.randint(20, 60))) for _ in range(4)]
    return [
        f"{random.choice(stems) if number % 4 else ''} {' '.join(random.choices(WORDS, k=random.randint(2, 30)))}"
        for number in range(count)
    ]


def own_key(number: int) -> str:
    return f"user{number}"


def secret_of(name: str) -> str:
    return f"secret-of-{name}"


@define
class Matrix:
    """What was said in each way; `sources` counts where the prompts' tokens came from."""

    folder: Path
    prompts: list[str]
    num_tokens: int
    engine: dict[str, object]
    model: str
    said: dict[str, dict[int, Said]] = field(factory=dict)
    sources: dict[str, Counter[str]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        names = [CROWD, *map(own_key, range(len(self.prompts)))]
        self.key_file.write_text("".join(f"{name}:{secret_of(name)}\n" for name in names))
        self.key_file.chmod(0o600)

    @property
    def key_file(self) -> Path:
        return self.folder / "keys"

    def daemon(self, *, disk_mb: int = 4096, **engine: object) -> DaemonProcess:
        """A new process over the same memory."""
        tables: Tables = {
            "model": {"path": self.model},
            "engine": {"slots": USERS, "context": 512} | self.engine | engine,
            "memory": {"answers": False, "disk_mb": disk_mb},
            "server": {"api_keys_file": str(self.key_file)},
        }
        return start(self.folder, tables)

    async def ask(self, client: AsyncClient, way: str, number: int, key: str) -> None:
        client.headers["Authorization"] = f"Bearer {secret_of(key)}"
        got = await answer(client, COMPLETIONS, ask(self.prompts[number], self.num_tokens, logprobs=0))
        self.said.setdefault(way, {})[number] = tuple(got["choices"][0]["logprobs"]["tokens"])
        told = got["reame"]
        self.sources.setdefault(way, Counter()).update(
            prompt=got["usage"]["prompt_tokens"], live=told["live_tokens"], disk=told["disk_tokens"]
        )

    async def in_turn(self, daemon: DaemonProcess, ways: Iterable[str], key_of: Callable[[int], str]) -> None:
        ways = list(ways)
        async with connect(daemon) as client:
            for number in range(len(self.prompts)):
                for way in ways:
                    await self.ask(client, way, number, key_of(number))
            await until_idle(client)

    async def at_once(self, daemon: DaemonProcess, way: str) -> None:
        todo = list(range(len(self.prompts)))

        async def user() -> None:
            async with connect(daemon) as client:
                while todo:
                    await self.ask(client, way, todo.pop(), CROWD)

        async with trio.open_nursery() as nursery:
            for _ in range(USERS):
                nursery.start_soon(user)

    async def run(self) -> None:
        """The small ones' cells hold a prompt and its neighbour, their disk a few: everything comes and goes."""
        with self.daemon() as daemon:
            await self.in_turn(daemon.wait_ready(), ("cold", "live"), own_key)
        self.tell("cold", "live")
        with self.daemon() as daemon:
            await self.in_turn(daemon.wait_ready(), ("disk",), own_key)
            await self.at_once(daemon, "crowd")
        self.tell("disk", "crowd")
        with self.daemon(disk_mb=2, slots=2, residents=2, context=256, cells=256) as daemon:
            await self.in_turn(daemon.wait_ready(), ("evicted", "reloaded"), lambda number: CROWD)
        self.tell("evicted", "reloaded")
        with self.daemon(disk_mb=8, residents=4, context=256, cells=256, batch_rows=64) as daemon:
            await self.at_once(daemon.wait_ready(), "crowd, little room")
        self.tell("crowd, little room")

    def tell(self, *ways: str) -> None:
        for way in ways:
            num_same = sum(self.said["cold"][number] == said for number, said in self.said[way].items())
            print(f"{way}: {num_same} of {len(self.prompts)} as cold, tokens {dict(self.sources[way])}", flush=True)

    def faults(self) -> list[str]:
        cold = self.said["cold"]
        found = [
            f"{way}: {self.prompts[number]!r}: {said} instead of {cold[number]}"
            for way, all_said in self.said.items()
            for number, said in all_said.items()
            if said != cold[number]
        ]
        if self.sources["cold"]["live"] or self.sources["cold"]["disk"]:
            found.append(f"cold was not cold: {self.sources['cold']}")
        places = {"live": "live", "disk": "disk", "crowd": "live", "reloaded": "live"}
        empty = [way for way, place in places.items() if not self.sources[way][place]]
        return found + [f"{way}: nothing came from there" for way in empty]


async def main() -> int:
    options = arguments(__doc__, count=200, tokens=16, seed=1, exact=0, threads=0, model=MODEL)
    with scratch() as folder:
        prompts = prompts_of(options.count, Random(options.seed))
        engine = {"exact": bool(options.exact), "threads": options.threads}
        matrix = Matrix(folder, prompts, options.tokens, engine, options.model)
        await matrix.run()
        num_texts = len(set(matrix.said["cold"].values()))
        print(f"{len(matrix.said)} ways, {num_texts} different answers")
        return verdict(matrix.faults())


if __name__ == "__main__":
    sys.exit(trio.run(main))
