"""Answers that quote what they were given: a text rewritten with one change, and facts drawn from it.

Shows what drafts from the prompt itself give, on content that was never seen. Favours whoever looks there: Reame and
llama-server with `--spec-default`.
"""

from __future__ import annotations

from random import Random

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, chat
from bench.scenarios.repeat import GOODS, NAMES
from bench.sides import LLAMA_SERVER, NO_DRAFTS, SPECULATING
from bench.stats import Goal

PLACES = ("warehouse", "front desk", "second floor", "loading dock", "car park", "workshop")


def report(random: Random) -> str:
    lines = []
    for number in range(1, 9):
        who, what, where = random.choice(NAMES), random.choice(GOODS), random.choice(PLACES)
        lines.append(
            f"On day {number} {who} left {random.randint(2, 40)} pieces of the {what} at the {where} and paid "
            f"{random.randint(10, 900)} euros."
        )
    return " ".join(lines)


def measure(run: Run) -> dict[str, float]:
    random = Random(run.prompts.number())
    values = {}
    for name, task in (
        ("rewriting", "Repeat the following text word for word, but replace the word euros by dollars:"),
        ("extraction", "List every sentence of the following text as a bullet point, without changing a word:"),
    ):
        (reply,) = run.ask(Part(body=chat(f"{task}\n\n{report(random)}", 2 * run.scale.answer_tokens)), cold=False)
        run.server.settle()
        values[name] = reply.decode_rate
    return values


SCENARIO = Scenario(
    name="quoting",
    title="Answers that quote their prompt",
    shows="drafts from a text never seen before",
    favours="whoever drafts from the prompt: Reame, and llama-server with --spec-default",
    metrics=(
        Metric(name="rewriting", title="rewriting", unit="tok/s", goals=(Goal("ratio", 1.5),)),
        Metric(name="extraction", title="extraction", unit="tok/s", goals=(Goal("ratio", 1.5),)),
    ),
    measure=measure,
    rivals=(NO_DRAFTS, LLAMA_SERVER, SPECULATING),
)
