"""One, two, four and eight people ask at the same moment, each something else; everybody gets 128 tokens.

Shows how the speed of all together, and of the one who gets least, changes with the crowd. All tokens by the time from
the first request to the last end, prompts included. Favours nobody: both servers batch, and no two prompts begin alike.
"""

from __future__ import annotations

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import NO_DRAFTS
from bench.stats import Goal

CROWDS = (1, 2, 4, 8)


def measure(run: Run) -> dict[str, float]:
    values: dict[str, float] = {}
    for users in CROWDS:
        replies = run.ask(*(Part(body=completion(run.prompts.text(16), run.scale.answer_tokens)) for _ in range(users)))
        seconds = max(reply.ended or 0.0 for reply in replies) - min(reply.sent for reply in replies)
        values[f"together_{users}"] = sum(reply.completion_tokens for reply in replies) / seconds
        values["slowest"] = min(reply.decode_rate for reply in replies)
        values["last_first"] = max(reply.first_token_s for reply in replies)
    run.curves["together"] = [(users, values[f"together_{users}"]) for users in CROWDS]
    return values


SCENARIO = Scenario(
    name="crowd",
    title="One, two, four and eight users",
    shows="how speed changes with the crowd",
    favours="nobody",
    metrics=(
        *(
            Metric(name=f"together_{users}", title=f"{users} together", unit="tok/s", goals=(Goal("ratio", 1.0),))
            for users in CROWDS
        ),
        Metric(name="slowest", title="the slowest of eight", unit="tok/s"),
        Metric(name="last_first", title="the last first token of eight", unit="s", better="lower"),
    ),
    measure=measure,
    ours=NO_DRAFTS,
    users=CROWDS[-1],
)
