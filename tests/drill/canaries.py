"""Twenty conversations of five API keys, each with a secret word: none ever gets another one's, in text or logprobs.

Several at a time, with so few cells and so little disk that everything is evicted and loaded again all the time, and
with a restart half way. The secrets are random letters, so no word is there by chance. And keys never share: what one
has computed is new for the other.
"""

from __future__ import annotations

import json
import random
import sys
from typing import TYPE_CHECKING, Any

import trio
from _drill import WORDS, arguments, scratch, start, verdict
from attrs import define, field, frozen
from streams import stream
from talking import COMPLETIONS, answer, ask, connect

if TYPE_CHECKING:
    from pathlib import Path

    from daemon_process import DaemonProcess, Tables

CONVERSATIONS, KEYS, USERS = 20, 5, 8
LETTERS = "bcdfghjklmnpqrstvwxz"


@frozen
class Conversation:
    key: str
    secret: str
    beginning: str

    @classmethod
    def drawn(cls, number: int, chance: random.Random) -> Conversation:
        """All begin alike, so that there is something to be mixed up."""
        secret = "".join(chance.choices(LETTERS, k=12))
        words = " ".join(chance.choices(WORDS, k=chance.randint(5, 60)))
        return cls(f"key{number % KEYS}", secret, f"You are a careful helper. The secret word is {secret}. {words}")

    def body(self, chance: random.Random) -> dict[str, Any]:
        """Even the smallest model goes on with what stood behind the same words before."""
        more = " ".join(chance.choices(WORDS, k=chance.randint(1, 20)))
        prompt = f"{self.beginning} {more}. The secret word is {self.secret}. Again: the secret word is"
        return ask(prompt, 16) | {"temperature": chance.choice((0, 0.8))}


@define
class Drill:
    conversations: list[Conversation]
    chance: random.Random
    num_asked: int = 0
    num_right: int = 0
    faults: list[str] = field(factory=list)

    async def run(self, daemon: DaemonProcess, count: int) -> None:
        todo = [self.chance.choice(self.conversations) for _ in range(count)]

        async def user() -> None:
            while todo:
                await self._ask(daemon, todo.pop())

        async with trio.open_nursery() as nursery:
            for _ in range(USERS):
                nursery.start_soon(user)

    async def _ask(self, daemon: DaemonProcess, mine: Conversation) -> None:
        body = mine.body(self.chance)
        async with connect(daemon, secret_of(mine.key)) as client:
            if self.chance.random() < 0.5:
                said = (await stream(client, COMPLETIONS, body)).texts.get(0, "")
            else:
                said = json.dumps(await answer(client, COMPLETIONS, body | {"logprobs": 5}))
        self.num_asked += 1
        self.num_right += mine.secret in said
        foreign = [other.secret for other in self.conversations if other is not mine and other.secret in said]
        if foreign:
            self.faults.append(f"the conversation of {mine.secret} was told {foreign}: {said}")


def secret_of(key: str) -> str:
    return f"secret-of-{key}"


async def shared(daemon: DaemonProcess) -> list[str]:
    """What a key finds of a prompt that another one has just had computed, and of its own."""
    found = []
    for key in ("key0", "key1", "key0"):
        async with connect(daemon, secret_of(key)) as client:
            got = await answer(client, COMPLETIONS, ask(" ".join(WORDS * 3), 2))
            found.append(got["usage"]["prompt_tokens_details"]["cached_tokens"] > 0)
    return [] if found == [False, False, True] else [f"found by key0, key1, key0: {found}"]


def tables(folder: Path) -> Tables:
    file = folder / "keys"
    file.write_text("".join(f"key{number}:{secret_of(f'key{number}')}\n" for number in range(KEYS)))
    file.chmod(0o600)
    return {
        "engine": {"slots": 4, "residents": 4, "context": 512, "cells": 768},
        "memory": {"disk_mb": 8},
        "server": {"api_keys_file": str(file)},
    }


async def main() -> int:
    options = arguments(__doc__, count=200, seed=1)
    chance = random.Random(options.seed)
    drill = Drill([Conversation.drawn(number, chance) for number in range(CONVERSATIONS)], chance)
    with scratch() as folder:
        for _ in range(2):
            with start(folder, tables(folder)) as daemon:
                daemon.wait_ready()
                await drill.run(daemon, options.count // 2)
        with start(folder, tables(folder)) as daemon:
            drill.faults += await shared(daemon.wait_ready())
    print(f"{drill.num_asked} answers, {drill.num_right} with the right word")
    if options.count >= 50 and not drill.num_right:
        drill.faults.append("no secret was ever told: the drill shows nothing")
    return verdict(drill.faults)


if __name__ == "__main__":
    sys.exit(trio.run(main))
