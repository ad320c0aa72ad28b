"""A new function in Python and a new piece of prose, with a smaller model of the same family that guesses.

Shows what a draft model is worth on this machine, and that it costs nothing where it is worth nothing. The rivals are
Reame without any drafts, Reame with its usual ones, and llama-server with the same draft model. Favours machines with
many cores: a draft model pays where a step of several rows costs little more than one of a single row.
"""

from __future__ import annotations

from random import Random

from bench.client import Part
from bench.code import DOINGS, FIELDS, THINGS
from bench.scenario import Metric, Run, Scenario, chat
from bench.sides import DRAFT, NO_DRAFTS, REAME, Side
from bench.stats import Goal

PLACES = ("a harbour at night", "a mountain hut in snow", "an old library", "a market in the rain", "a small station")

THEIRS = Side("llama-server, draft model", "llama-server", ("--model-draft", DRAFT, "--spec-type", "draft-simple"))


def measure(run: Run) -> dict[str, float]:
    random = Random(run.prompts.number())
    doing, thing, (first, second) = random.choice(DOINGS), random.choice(THINGS), random.sample(FIELDS, 2)
    code = (
        f"Write a Python function {doing}_{thing}s that takes a list of {thing}s and a {first}, and returns those "
        f"whose {second} is above {random.randint(3, 900)}, sorted by {first}. Give it a docstring and two examples."
    )
    prose = f"Describe {random.choice(PLACES)} to a person who is called {run.prompts.text(2)}. Use long sentences."

    def rate(text: str) -> float:
        (reply,) = run.ask(Part(body=chat(text, run.scale.answer_tokens)), cold=False)
        run.server.settle()
        return reply.decode_rate

    return {"code": rate(code), "prose": rate(prose)}


SCENARIO = Scenario(
    name="draft",
    title="A smaller model guesses what the model will say",
    shows="what a draft model is worth on this machine",
    favours="machines with many cores",
    metrics=(
        Metric(name="code", title="a new function", unit="tok/s", goals=(Goal("ratio", 0.98),)),
        Metric(name="prose", title="new prose", unit="tok/s", goals=(Goal("ratio", 0.98),)),
    ),
    measure=measure,
    ours=Side("Reame, draft model", "reame", ("--set", f"speculation.draft_model={DRAFT}")),
    rivals=(NO_DRAFTS, REAME, THEIRS),
    by_default=False,
    models="coder-1.5b",
    drafts=True,
)
