"""A letter is written, the same one again, and then one with other names and numbers.

Shows how fast a text is decoded that was generated before, whole or nearly. Old answers are switched off: each token is
computed. Favours Reame, which keeps what it generated; llama-server has its n-gram speculation on (`--spec-default`),
and a third side is Reame without drafts.
"""

from __future__ import annotations

from random import Random

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, chat
from bench.sides import LLAMA_SERVER, NO_DRAFTS, SPECULATING
from bench.stats import Goal

NAMES = ("Miller", "Rossi", "Tanaka", "Okafor", "Novak", "Garcia", "Haddad", "Jensen", "Dubois", "Kowalski")
GOODS = ("office chair", "coffee machine", "garden hose", "desk lamp", "rain jacket", "bicycle pump", "water filter")


def order(random: Random) -> str:
    name, goods = random.choice(NAMES), random.choice(GOODS)
    return (
        f"Write a short business letter to customer {name} about order number {random.randint(10_000, 99_999)}: the "
        f"{goods} will arrive {random.randint(2, 9)} days late. Apologise, offer a voucher of {random.randint(5, 30)} "
        "euros, and say how to cancel. Use full sentences."
    )


def measure(run: Run) -> dict[str, float]:
    random = Random(run.prompts.number())
    first, other = order(random), order(random)

    def rate(text: str, *, cold: bool = False) -> float:
        (reply,) = run.ask(Part(body=chat(text, 2 * run.scale.answer_tokens)), cold=cold)
        run.server.settle()
        return reply.decode_rate

    return {"first": rate(first), "again": rate(first), "near": rate(other)}


SCENARIO = Scenario(
    name="repeat",
    title="The same letter again, and one with other names and numbers",
    shows="decoding what was generated before",
    favours="Reame, which keeps what it generated",
    metrics=(
        Metric(name="first", title="first letter", unit="tok/s"),
        Metric(name="again", title="the same again", unit="tok/s", goals=(Goal("ratio", 3.0),)),
        Metric(name="near", title="other names and numbers", unit="tok/s", goals=(Goal("ratio", 2.0),)),
    ),
    measure=measure,
    rivals=(NO_DRAFTS, LLAMA_SERVER, SPECULATING),
)
