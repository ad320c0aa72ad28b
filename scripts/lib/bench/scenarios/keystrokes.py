"""Somebody types into the middle of a file of about 3,000 tokens, and the editor asks for a completion at every key.

Shows how soon grey text appears, and what the typing costs the machine: processor seconds of the server, all its
threads. Both get what llama.vscode and llama.vim send to `/infill`; each answer is left when its first token came, as
the next key is on its way. llama-server runs as those plugins advise (`-b 1024 -ub 1024 --cache-reuse 256`), with
defaults, and with the other order of prefix and suffix (`--spm-infill`). Favours Reame, at a price: llama-server cuts
the file to its batch (2,048 tokens, or 1,024), a quarter of it behind the cursor, and reads that quarter again at each
key, as the line that is typed stands before it; Reame keeps the whole file, and so opens it more slowly. Whoever takes
too long is not waited for: he is measured by the keys that he got done (4 minutes, with --quick one).
"""

from __future__ import annotations

import time
from random import Random
from statistics import median, quantiles
from typing import Any

from bench.client import Cue, Part
from bench.code import Typing, typing
from bench.errors import BenchError
from bench.scenario import Metric, Run, Scenario
from bench.sides import LLAMA_SERVER, Side
from bench.stats import Goal

FILE_TOKENS = 3000
PAUSE_S = 0.05
LEAST_KEYS = 8
"""Done in any case."""


def measure(run: Run) -> dict[str, float]:
    text = typing(Random(run.prompts.number()), tokens=FILE_TOKENS, keys=run.scale.keys)
    cold = first_token(run, text, 0)
    run.server.settle()
    used, times, end = run.server.cpu_s, [], time.monotonic() + run.scale.typing_s
    for keys in range(1, run.scale.keys + 1):
        times.append(1e3 * first_token(run, text, keys))
        if time.monotonic() > end and keys >= LEAST_KEYS:
            break
        time.sleep(PAUSE_S)
    run.server.settle()
    values = {
        "cold": cold,
        "first": median(times),
        "slow": quantiles(times, n=20)[17],
        "worst": max(times),
        "keys": float(len(times)),
    }
    now = run.server.cpu_s
    if used is not None and now is not None:
        values["cpu"] = (now - used) / len(times)
    run.curves["keys"] = list(enumerate(times, 1))
    return values


def first_token(run: Run, text: Typing, keys: int) -> float:
    """Seconds until the server says anything of the completion after so many keys."""
    (reply,) = run.ask(Part(body=body(text, keys), path="/infill", until=Cue(0, 1)), cold=False)
    if reply.first_event is None:
        raise BenchError("the server ended a completion without a word")
    return reply.first_event - reply.sent


def body(text: Typing, keys: int) -> dict[str, Any]:
    above, line = text.at(keys)
    return {
        "input_prefix": above,
        "prompt": line,
        "input_suffix": text.after,
        "n_predict": 32,
        "temperature": 0,
        "top_k": 40,
        "top_p": 0.99,
        "samplers": ["top_k", "top_p", "infill"],
        "cache_prompt": True,
        "stream": True,
    }


SCENARIO = Scenario(
    name="keystrokes",
    title="A person typing code",
    shows="how soon a completion begins at each key, and what typing costs",
    favours="Reame at each key, llama-server when the file is opened, of which it reads less",
    metrics=(
        Metric(name="cold", title="the file is opened", unit="s", better="lower"),
        Metric(name="first", title="first token, median key", unit="ms", better="lower", goals=(Goal("ratio", 1.0),)),
        Metric(name="slow", title="first token, slowest tenth", unit="ms", better="lower"),
        Metric(name="worst", title="first token, slowest key", unit="ms", better="lower"),
        Metric(name="keys", title="keys done in time", unit=""),
        Metric(name="cpu", title="processor time of a key", unit="s", better="lower", goals=(Goal("ratio", 1.25),)),
    ),
    measure=measure,
    rivals=(
        Side("llama-server, -b 1024", "llama-server", ("-b", "1024", "-ub", "1024", "--cache-reuse", "256")),
        LLAMA_SERVER,
        Side("llama-server, --spm-infill", "llama-server", ("--spm-infill",)),
    ),
    models="coder",
    most_rounds=3,
    weight=5,
)
