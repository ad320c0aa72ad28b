"""Two streams side by side, again and again, while what came before is written to disk behind them.

Shows what keeping blocks, answers and generations costs running streams. The rival is Reame itself with
`memory.enabled = false`: nobody else stores anything. Both draft nothing, as what is kept would draft for one of them.
Favours the rival.
"""

from __future__ import annotations

from time import perf_counter

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import NO_DRAFTS, NO_MEMORY
from bench.stats import Goal

TURNS = 3


def measure(run: Run) -> dict[str, float]:
    run.ask(Part(body=completion(run.prompts.text(run.scale.short_prompt), 1)))  # something to store
    tokens, started = 0, perf_counter()
    for _ in range(TURNS):
        parts = [Part(body=completion(run.prompts.text(16), run.scale.answer_tokens)) for _ in range(2)]
        tokens += sum(reply.completion_tokens for reply in run.ask(*parts))
    return {"rate": tokens / (perf_counter() - started)}


SCENARIO = Scenario(
    name="storing",
    title="Streams while earlier ones are stored",
    shows="what writing behind costs",
    favours="the rival, which stores nothing",
    metrics=(Metric(name="rate", title="both streams together", unit="tok/s", goals=(Goal("ratio", 0.98),)),),
    measure=measure,
    users=2,
    ours=NO_DRAFTS,
    rivals=(NO_MEMORY,),
)
