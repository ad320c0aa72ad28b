"""A stream runs, and somebody else sends a prompt of about 2,000 tokens.

Shows the longest silence that the running stream's reader sees, what the stream keeps of its speed meanwhile, and what
that costs the newcomer. Favours Reame: it bounds the time of a step while a stream runs (`step_ms`). llama-server reads
a whole logical batch (2,048 tokens) before it goes on; the second rival is llama-server told to read 64 tokens at a
time, the best a person who knows the trade can set for this, at a price for every other prompt.
"""

from __future__ import annotations

from bench.client import Cue, Part
from bench.errors import BenchError
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import LLAMA_SERVER, NO_DRAFTS, Side
from bench.stats import Goal

STREAM_TOKENS = 2000
"""So many that the stream still runs when the long prompt has been read; the client then leaves."""


def measure(run: Run) -> dict[str, float]:
    stream, newcomer = run.ask(
        Part(body=completion(run.prompts.text(16), STREAM_TOKENS), until=Cue(1, 8)),
        Part(body=completion(run.prompts.text(run.scale.long_prompt), 16), after=Cue(0, 16)),
    )
    if stream.ended is not None:
        raise BenchError("the running stream ended by itself before the long prompt was read: nothing to measure")
    start, end = newcomer.sent, newcomer.sent + newcomer.first_token_s
    silences = sorted(stream.gaps(start, end), reverse=True)
    run.curves["silences"] = [*enumerate(silences, 1)]
    return {
        "gap": stream.worst_gap(start, end),
        "pace": stream.pieces_within(start, end) / (end - start),
        "first": newcomer.first_token_s,
    }


SCENARIO = Scenario(
    name="gap",
    title="A long prompt beside a running stream",
    shows="how long a reader waits because of somebody else's prompt",
    favours="Reame, which bounds the time of a step",
    metrics=(
        Metric(
            name="gap",
            title="longest silence of the stream",
            unit="s",
            better="lower",
            goals=(Goal("value", 0.5, models="smollm2"),),
        ),
        Metric(name="pace", title="its speed meanwhile", unit="tok/s"),
        Metric(name="first", title="first token of the newcomer", unit="s", better="lower"),
    ),
    measure=measure,
    ours=NO_DRAFTS,
    users=2,
    rivals=(LLAMA_SERVER, Side("llama-server, -b 64", "llama-server", ("-b", "64", "-ub", "64"))),
)
