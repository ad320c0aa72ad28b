"""One stream alone, then the same beside one process that never sleeps, pinned to nothing.

Shows how much slower decoding gets when it loses a share of the cores, as on a shared or oversubscribed machine.
Favours Reame: in company it lets ggml's threads spin only shortly at their barriers (`spin_count`, libgomp's
GOMP_SPINCOUNT). The second rival is llama-server with the same environment variable, for it is no magic: anybody may
set it.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import LLAMA_SERVER, NO_DRAFTS, Side
from bench.stats import Goal

if TYPE_CHECKING:
    from collections.abc import Iterator


def measure(run: Run) -> dict[str, float]:
    (alone,) = run.ask(Part(body=completion(run.prompts.text(16), run.scale.answer_tokens)))
    with busy_process():
        (beside,) = run.ask(Part(body=completion(run.prompts.text(16), run.scale.answer_tokens)))
    return {
        "alone": alone.decode_rate,
        "beside": beside.decode_rate,
        "slowdown": alone.decode_rate / beside.decode_rate,
    }


@contextmanager
def busy_process() -> Iterator[None]:
    busy = subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
    try:
        assert busy.stdout is not None
        busy.stdout.readline()
        yield
    finally:
        busy.kill()
        busy.communicate()


SCENARIO = Scenario(
    name="neighbour",
    title="Beside one busy process",
    shows="what is left of the speed when a neighbour wants a core",
    favours="Reame, whose threads spin only shortly",
    metrics=(
        Metric(name="alone", title="decode alone", unit="tok/s"),
        Metric(name="beside", title="decode beside it", unit="tok/s"),
        Metric(
            name="slowdown",
            title="alone / beside",
            unit="x",
            better="lower",
            goals=(Goal("value", 2.3),),
        ),
    ),
    measure=measure,
    ours=NO_DRAFTS,
    rivals=(
        LLAMA_SERVER,
        Side("llama-server, GOMP_SPINCOUNT=1000", "llama-server", (), (("GOMP_SPINCOUNT", "1000"),)),
    ),
)
