"""Four users ask at once about one text that nobody has read yet.

Shows what the crowd waits, against one user alone with another such text. Favours Reame: who comes while somebody reads
the same text waits for him and takes it over, while llama-server reads it once for each.
"""

from __future__ import annotations

from time import perf_counter

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.stats import Goal

USERS = 4
ANSWER = 8


def measure(run: Run) -> dict[str, float]:
    def seconds(users: int) -> float:
        text = run.prompts.text(run.scale.long_prompt)
        bodies = [completion(f"{text}. {run.prompts.text(10)}", ANSWER) for _ in range(users)]
        started = perf_counter()
        run.ask(*(Part(body=body) for body in bodies), cold=users == 1)
        ended = perf_counter() - started
        run.server.settle()
        return ended

    alone, together = seconds(1), seconds(USERS)
    return {"alone": alone, "together": together, "share": together / alone}


SCENARIO = Scenario(
    name="flock",
    title="Four users, one new text",
    shows="what four wait who need the same text, against one",
    favours="Reame, which reads it once",
    metrics=(
        Metric(name="alone", title="one user", unit="s", better="lower"),
        Metric(name="together", title="four at once", unit="s", better="lower"),
        Metric(name="share", title="four by one", unit="x", better="lower", goals=(Goal("value", 1.3),)),
    ),
    measure=measure,
    users=USERS,
    cells=12288,
)
