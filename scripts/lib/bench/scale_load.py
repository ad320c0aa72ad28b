"""What users at once and long prompts cost Reame: one daemon for each question, with room for the largest size."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bench.client import Part
from bench.errors import BenchError
from bench.prompts import Prompts
from bench.scale_slope import Series
from bench.scenario import FULL, Run, completion
from bench.sides import Setup, Side, start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ANSWER, TURN = 48, 24
USER_CELLS = 128
"""Room of one user: a short prompt and its answer."""


def users(sizes: Sequence[int], model: Path, threads: int, seed: int, tell: Callable[[str], None]) -> list[Series]:
    """Each asks something else, all at the same moment."""
    most = max(sizes)
    setup = Setup(model=model, threads=threads, users=most, context=2048, cells=max(4096, most * USER_CELLS))
    rates, waits = [], []
    with _daemon(setup, ("--set", f"engine.slots={most}"), seed) as run:
        for size in sizes:
            tell(f"users: {size}")
            replies = run.ask(*(Part(body=completion(run.prompts.text(16), ANSWER)) for _ in range(size)))
            seconds = max(reply.ended or 0.0 for reply in replies) - min(reply.sent for reply in replies)
            rates.append((float(size), sum(reply.completion_tokens for reply in replies) / seconds))
            waits.append((float(size), max(reply.first_token_s for reply in replies)))
    return [
        Series(name="users_rate", title="all together", size="users at once", unit="tok/s", points=tuple(rates)),
        Series(name="users_wait", title="the last first token", size="users at once", unit="s", points=tuple(waits)),
    ]


def prompts(sizes: Sequence[int], model: Path, threads: int, seed: int, tell: Callable[[str], None]) -> list[Series]:
    """A new text of each size, and then a second question about it. Ends at the context that the model was made for."""
    room = int(1.1 * max(sizes)) + 256
    setup = Setup(model=model, threads=threads, context=room, cells=2 * room)
    reads, rates, seconds = [], [], []
    note, what = "", "tokens of the prompt"
    with _daemon(setup, (), seed) as run:
        for size in sizes:
            tell(f"prompts: {size:,} tokens")
            text = run.prompts.text(size)
            try:
                (first,) = run.ask(Part(body=completion(f"{text}. {run.prompts.text(8)}", ANSWER)))
            except BenchError as error:
                if "context_length_exceeded" not in str(error):
                    raise
                note = f"the model takes no {size:,} tokens"
                break
            (second,) = run.ask(Part(body=completion(f"{text}. {run.prompts.text(8)}", TURN)), cold=False)
            reads.append((float(first.prompt_tokens), first.first_token_s))
            rates.append((float(first.prompt_tokens), 1e3 / first.decode_rate))
            seconds.append((float(first.prompt_tokens), second.first_token_s))
    return [
        Series(name="prompt_first", title="first token", size=what, unit="s", points=tuple(reads), note=note),
        Series(name="prompt_second", title="first token again", size=what, unit="s", points=tuple(seconds), note=note),
        Series(name="prompt_decode", title="each later token", size=what, unit="ms", points=tuple(rates), note=note),
    ]


@contextmanager
def _daemon(setup: Setup, args: tuple[str, ...], seed: int) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="reame-bench-") as scratch:
        server = start(Side("Reame", "reame", args), setup, binaries=Path(), scratch=Path(scratch))
        try:
            server.resume()
            run = Run(server, Prompts(seed, "scale", setup.users), FULL)
            run.ask(Part(body=completion(run.prompts.text(64), 8)))
            yield run
        finally:
            server.stop()
