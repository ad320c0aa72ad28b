"""`./scripts/bench scale`."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators
from rich.console import Console

from bench import machine, plots
from bench import scale as scaling
from bench.files import model_file, write

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 118
AT_LEAST_ONE = Parameter(validator=validators.Number(gte=1))
SAY = Console(stderr=True, highlight=False, soft_wrap=True)


def scale(
    *,
    part: Annotated[tuple[Literal["blocks", "archive", "users", "prompts"], ...], Parameter(negative="")] = (),
    model: str = "smollm2-135m",
    quick: Annotated[bool, Parameter(negative="")] = False,
    threads: Annotated[int | None, AT_LEAST_ONE] = None,
    seed: int | None = None,
    json: Path | None = None,
    plot: Path | None = None,
) -> int:
    """How costs grow: blocks on disk to 100,000, the archive to 10 million tokens, users to 64, prompts to 16,000.

    Parameters
    ----------
    part
        Only this one; may be given several times.
    model
        A name that `reame list` shows, or the path of a .gguf file; for users and prompts.
    quick
        Sizes of seconds instead of many minutes.
    threads
        Threads of the engine; all cores of this process by default.
    seed
        Of all that is made up; drawn and printed by default.
    json
        Write every point and slope to this file.
    plot
        Draw them into this directory.
    """
    draw = plots.obtain() if plot else None
    seed, threads = seed or random.SystemRandom().randrange(1, 1 << 31), threads or len(os.sched_getaffinity(0))
    file = model_file(model)
    facts = {**machine.facts(ROOT), "model": file.name, "threads": threads, "seed": seed, "quick": quick}
    SAY.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    write(json, scaling.to_json([], facts))
    sizes = scaling.QUICK if quick else scaling.FULL
    found = scaling.measure(part or scaling.PARTS, sizes, model=file, threads=threads, seed=seed, tell=SAY.print)
    (Console() if sys.stdout.isatty() else Console(width=WIDTH)).print(scaling.table(found))
    write(json, scaling.to_json(found, facts))
    if plot and draw:
        draw(scaling.to_json(found, facts), plot)
    return 0
