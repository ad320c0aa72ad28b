"""What a look-up costs when much is kept: blocks on disk, and the archive of generations. No server, no model.

Blocks have a payload of 2 KiB here: what is asked is how the cost grows with their number, and a real one's bytes cost
the same however many others there are. Generations are 300 tokens, a part of them copied from earlier ones.
"""

from __future__ import annotations

from random import Random
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from bench.scale_slope import Series
from reame.core.blocks import Block, block_keys, root_key
from reame.memory.archive import Archive
from reame.memory.block_store import BlockStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

BLOCK_TOKENS, CHAIN, PAYLOAD = 16, 32, 2048
FINGERPRINT = bytes(range(16))
VOCABULARY, GENERATION, TAIL = 49_152, 300, 16
PROBES = 60
ROOM = 64 << 30
Chain = tuple[list[bytes], list[int]]
"""The keys of its blocks, and all its tokens."""


def blocks(sizes: Sequence[int], folder: Path, seed: int, tell: Callable[[str], None]) -> list[Series]:
    """Chains of `CHAIN` blocks are stored until there are as many as each of `sizes` says."""
    draw = Random(seed)
    chains: list[Chain] = []
    store = _blocks(folder)
    writes, reads, misses, opens = (dict[int, float]() for _ in range(4))
    for size in sizes:
        tell(f"blocks: to {size:,}")
        times = []
        while len(chains) * CHAIN < size:
            chains.append(_chain(draw))
            times.append(_ms(_store, store, chains[-1]))
        chosen = draw.choices(chains, k=PROBES)
        writes[size] = median(times[-PROBES:]) / CHAIN
        reads[size] = median(_ms(_load, store, chain) for chain in chosen) / CHAIN
        misses[size] = median(_ms(store.has, _chain(draw)[0], namespace="") for _ in range(PROBES))
        opens[size] = median(_ms(_load, _blocks(folder), chain) for chain in chosen)
    return [
        _series("blocks_write", "a block is stored", "blocks on disk", writes),
        _series("blocks_read", "a block of a chain is read", "blocks on disk", reads),
        _series("blocks_miss", "a text that is not there", "blocks on disk", misses),
        _series("blocks_open", "a new process reads 32", "blocks on disk", opens),
    ]


def archive(sizes: Sequence[int], folder: Path, seed: int, tell: Callable[[str], None]) -> list[Series]:
    """Generations are kept until the archive has as many tokens as each of `sizes` says."""
    draw = Random(seed)
    kept: list[list[int]] = []
    appends, finds, opens = (dict[int, float]() for _ in range(3))
    for size in sizes:
        tell(f"archive: to {size:,} tokens")
        place = _archive(folder)
        place.prepare(namespace="")
        times = []
        while len(kept) * GENERATION < size:
            kept.append(_generation(draw, kept))
            times.append(_ms(place.append, kept[-1], namespace=""))
        tails = [_tail(draw, kept) for _ in range(PROBES)]
        finds[size] = median(_ms(place.continuations, tail, namespace="", most=32) for tail in tails)
        appends[size] = median(times[-PROBES:])
        place.close()
        again = _archive(folder)
        opens[size] = _ms(again.prepare, namespace="")
        again.close()
    return [
        _series("archive_append", "a generation is kept", "tokens in the archive", appends),
        _series("archive_find", "what followed is looked up", "tokens in the archive", finds),
        _series("archive_open", "a new process opens it", "tokens in the archive", opens),
    ]


def _series(name: str, title: str, size: str, costs: dict[int, float]) -> Series:
    points = tuple((float(at), ms) for at, ms in costs.items())
    return Series(name=name, title=title, size=size, unit="ms", points=points)


def _ms(work: Callable[..., object], *args: object, **more: object) -> float:
    """Milliseconds that a call takes."""
    started = perf_counter()
    work(*args, **more)
    return 1e3 * (perf_counter() - started)


def _blocks(folder: Path) -> BlockStore:
    return BlockStore(folder, fingerprint=FINGERPRINT, budget_bytes=ROOM)


def _chain(draw: Random) -> Chain:
    tokens = [draw.randrange(VOCABULARY) for _ in range(CHAIN * BLOCK_TOKENS)]
    return block_keys(root_key(FINGERPRINT, ""), tokens, BLOCK_TOKENS), tokens


def _store(store: BlockStore, chain: Chain) -> None:
    keys, tokens = chain
    parents = [root_key(FINGERPRINT, ""), *keys]
    for depth, key in enumerate(keys):
        part = tuple(tokens[depth * BLOCK_TOKENS : (depth + 1) * BLOCK_TOKENS])
        payload = key * (PAYLOAD // len(key))
        store.store(Block(key, parents[depth], depth, part, payload), namespace="")


def _load(store: BlockStore, chain: Chain) -> None:
    keys, tokens = chain
    got = store.load(keys, tokens, block_tokens=BLOCK_TOKENS, namespace="")
    assert len(got) == len(keys), f"{len(got)} of {len(keys)} blocks came back"


def _archive(folder: Path) -> Archive:
    return Archive(folder, fingerprint=FINGERPRINT * 2, vocab_size=VOCABULARY, budget_bytes=ROOM)


def _generation(draw: Random, kept: Sequence[list[int]]) -> list[int]:
    """New tokens, with pieces of earlier generations between them."""
    tokens: list[int] = []
    while len(tokens) < GENERATION:
        if kept and draw.random() < 0.5:
            start = draw.randrange(GENERATION - 40)
            tokens += draw.choice(kept)[start : start + 40]
        else:
            tokens += [draw.randrange(VOCABULARY) for _ in range(40)]
    return tokens[:GENERATION]


def _tail(draw: Random, kept: Sequence[list[int]]) -> list[int]:
    end = draw.randrange(TAIL, GENERATION - 40)
    return draw.choice(kept)[end - TAIL : end]
