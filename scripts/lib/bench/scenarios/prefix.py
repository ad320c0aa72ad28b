"""Two questions about one text of about 2,000 tokens: the second right away, and a third after a restart of the server.

Shows how long the first token takes when the text was read before: from live cells, and from the disk. Favours Reame
after the restart: llama-server keeps nothing on disk by itself. Over live cells both should be equal.
"""

from __future__ import annotations

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.stats import Goal


def measure(run: Run) -> dict[str, float]:
    text = run.prompts.text(run.scale.long_prompt)
    questions = [run.prompts.text(12) for _ in range(3)]

    def first_token(question: str, *, cold: bool) -> float:
        (reply,) = run.ask(Part(body=completion(f"{text}. {question}", 8)), cold=cold)
        run.server.settle()
        return reply.first_token_s

    cold = first_token(questions[0], cold=True)
    live = first_token(questions[1], cold=False)
    run.server.restart()
    run.ask(Part(body=completion(run.prompts.text(8), 2)))  # the first request of a process touches its weights
    restarted = first_token(questions[2], cold=False)
    return {
        "cold": cold,
        "live": live,
        "restarted": restarted,
        "by_live": cold / live,
        "by_disk": cold / restarted,
        "disk_live": restarted / live,
    }


SCENARIO = Scenario(
    name="prefix",
    title="A second question about a long text, at once and after a restart",
    shows="time to the first token when the text was read before",
    favours="Reame after the restart; nobody over live cells",
    metrics=(
        Metric(name="cold", title="first question", unit="s", better="lower"),
        Metric(name="live", title="second question", unit="s", better="lower"),
        Metric(name="restarted", title="third, after a restart", unit="s", better="lower"),
        Metric(name="by_live", title="second faster than first", unit="x", goals=(Goal("value", 80),)),
        Metric(name="by_disk", title="after the restart faster than first", unit="x", goals=(Goal("value", 30),)),
        Metric(
            name="disk_live",
            title="after the restart, by the second's time",
            unit="x",
            better="lower",
            goals=(Goal("value", 2),),
        ),
    ),
    measure=measure,
    restarts=True,
)
