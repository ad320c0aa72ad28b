"""Four people ask at the same moment, each something else; everybody gets 128 tokens.

Shows how well rows of different users share one step. All tokens by the time from the first request to the last end,
prompts included. Favours nobody: both servers batch continuously, and no two prompts begin alike. llama-server runs
with four slots, once with one KV pool for all of them (as Reame does), once with a fixed quarter for each: the second
gives every user less room and is a little faster.
"""

from __future__ import annotations

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import LLAMA_SERVER, NO_DRAFTS, Side
from bench.stats import Goal

USERS = 4


def measure(run: Run) -> dict[str, float]:
    parts = [Part(body=completion(run.prompts.text(16), run.scale.answer_tokens)) for _ in range(USERS)]
    replies = run.ask(*parts)
    seconds = max(reply.ended or 0.0 for reply in replies) - min(reply.sent for reply in replies)
    return {
        "aggregate": sum(reply.completion_tokens for reply in replies) / seconds,
        "slowest": min(reply.decode_rate for reply in replies),
    }


SCENARIO = Scenario(
    name="users",
    title="Four users at once",
    shows="how well rows of different users share one step",
    favours="nobody: both servers batch, and the prompts have nothing in common",
    metrics=(
        Metric(name="aggregate", title="all four together", unit="tok/s", goals=(Goal("ratio", 1.0),)),
        Metric(name="slowest", title="the slowest of them", unit="tok/s"),
    ),
    measure=measure,
    ours=NO_DRAFTS,
    users=USERS,
    rivals=(LLAMA_SERVER, Side("llama-server, split KV", "llama-server", ("--no-kv-unified",))),
)
