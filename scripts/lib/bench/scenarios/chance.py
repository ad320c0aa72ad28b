"""Random words at temperature 1: nothing repeats, so no draft can help.

Shows what guessing costs where it is useless, for one user and for eight. The rival is Reame without drafts. Favours
the rival.
"""

from __future__ import annotations

from time import perf_counter

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import NO_DRAFTS
from bench.stats import Goal

USERS = 8


def measure(run: Run) -> dict[str, float]:
    def rate(users: int) -> float:
        hot = {"temperature": 1, "reame": {"answers": False}}
        bodies = [
            completion(run.prompts.text(24), run.scale.answer_tokens) | hot | {"seed": run.prompts.number()}
            for _ in range(users)
        ]
        started = perf_counter()
        replies = run.ask(*(Part(body=body) for body in bodies))
        return sum(reply.completion_tokens for reply in replies) / (perf_counter() - started)

    return {"alone": rate(1), "together": rate(USERS)}


SCENARIO = Scenario(
    name="chance",
    title="Random words at temperature 1",
    shows="what guessing costs where it is useless",
    favours="the rival, which does not guess",
    metrics=(
        Metric(name="alone", title="one user", unit="tok/s", goals=(Goal("ratio", 0.98),)),
        Metric(name="together", title="eight users together", unit="tok/s", goals=(Goal("ratio", 0.98),)),
    ),
    measure=measure,
    users=USERS,
    rivals=(NO_DRAFTS,),
)
