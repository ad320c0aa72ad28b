"""One stream alone: a short prompt nobody has seen, 128 tokens, greedy.

Shows what a token costs through each server's whole path: engine, sampling, HTTP, streaming. Favours nobody: no cache
and no batch can help, so the same engine should give the same speed, and we claim no advantage. llama-bench is the
engine alone, without tokenising, sampling and HTTP: a ceiling.
"""

from __future__ import annotations

from bench.client import Part
from bench.llama_bench import Test
from bench.scenario import Metric, Run, Scale, Scenario, completion
from bench.sides import NO_DRAFTS
from bench.stats import Goal


def measure(run: Run) -> dict[str, float]:
    (reply,) = run.ask(Part(body=completion(run.prompts.text(16), run.scale.answer_tokens)))
    return {"decode": reply.decode_rate, "first": reply.first_token_s * 1e3}


def tests(scale: Scale) -> tuple[Test, ...]:
    return (Test("decode", 0, scale.answer_tokens),)


SCENARIO = Scenario(
    name="decode",
    title="One stream alone",
    shows="what a token costs, from the engine to the client",
    favours="nobody: we claim no advantage",
    metrics=(
        Metric(name="decode", title="decode", unit="tok/s", goals=(Goal("ratio", 0.97),)),
        Metric(name="first", title="first token, 16-token prompt", unit="ms", better="lower"),
    ),
    measure=measure,
    ours=NO_DRAFTS,
    tests=tests,
)
