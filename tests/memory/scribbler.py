"""A process of its own that writes chains of blocks without end, reads some again, and says a line for each chain.

usage: scribbler.py DIRECTORY BUDGET_BYTES PAYLOAD_BYTES SEED
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from chains import chain, new_store, payloads

LENGTH = 4


def main() -> None:
    directory = Path(sys.argv[1])
    budget, payload, seed = map(int, sys.argv[2:])
    store = new_store(directory, budget)
    chance = random.Random(seed)
    number = 0
    while True:
        line = chain(LENGTH, seed=seed * 10_000 + number, payload=payload)
        stored = all(line.store(store))
        again = chain(LENGTH, seed=seed * 10_000 + chance.randint(max(0, number - 9), number), payload=payload)
        found = again.load(store)
        right = payloads(found) == payloads(again.blocks[: len(found)])
        print("right" if right else "WRONG", "stored" if stored else "dropped", flush=True)
        number += 1


if __name__ == "__main__":
    main()
