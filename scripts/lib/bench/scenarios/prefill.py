"""Reading a prompt nobody has seen: about 512 and about 2,000 tokens, one token of answer.

Shows prompt tokens a second until the first token reaches the client. Favours nobody: nothing is reused, and an idle
server may read in chunks as large as it likes. llama-bench is the engine alone: a ceiling.
"""

from __future__ import annotations

from bench.client import Part
from bench.llama_bench import Test
from bench.scenario import Metric, Run, Scale, Scenario, completion
from bench.stats import Goal


def measure(run: Run) -> dict[str, float]:
    values = {}
    for name, tokens in (("short", run.scale.short_prompt), ("long", run.scale.long_prompt)):
        (reply,) = run.ask(Part(body=completion(run.prompts.text(tokens), 1)))
        values[name] = reply.prefill_rate
    return values


def tests(scale: Scale) -> tuple[Test, ...]:
    return (Test("short", scale.short_prompt, 0), Test("long", scale.long_prompt, 0))


SCENARIO = Scenario(
    name="prefill",
    title="Reading a new prompt",
    shows="prompt tokens a second until the first token",
    favours="nobody: nothing is reused",
    metrics=(
        Metric(name="short", title="about 512 tokens (quick: 256)", unit="tok/s", goals=(Goal("ratio", 0.97),)),
        Metric(name="long", title="about 2,000 tokens (quick: 1,000)", unit="tok/s", goals=(Goal("ratio", 0.97),)),
    ),
    measure=measure,
    tests=tests,
)
