"""Customers' messages are sorted under eight labels, one after the other, each under the same instruction.

Shows seconds an answer when all there is to say is one of a few words. Reame gets the labels as `choice`; llama-server
the same as a GBNF grammar, the way its documentation gives. Favours Reame a little: what a label must go on with once
it is certain is written without being computed. Both have the instruction in their cells after the first message.
Answers may differ: Reame writes a label in the tokens that its text has by itself, a grammar lets any split of it
through, such as letter by letter. How many are right tells which is better, and is low for small models on both sides.
"""

from __future__ import annotations

from random import Random
from statistics import median
from typing import Any

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, chat
from bench.tickets import LABELS, Ticket, ticket

INSTRUCTION = f"""You sort messages that customers of a shop send. Answer with one label and nothing else:
- delivery: something has not come, came late, or to the wrong place
- refund: money should go back
- defect: something is broken or does not work
- invoice: papers about what was paid
- account: logging in, passwords, addresses, privacy
- product: a question before one buys
- cancel: an order should not be carried out
- praise: thanks, and nothing to be done
The labels are {", ".join(LABELS)}. A message may name several things: take what the customer wants done now."""
GRAMMAR = "root ::= " + " | ".join(f'"{label}"' for label in LABELS)


def body(asked: Ticket, kind: str) -> dict[str, Any]:
    made = chat("", 16)
    made["messages"] = [{"role": "system", "content": INSTRUCTION}, {"role": "user", "content": asked.text}]
    if kind == "reame":
        made["reame"] = {"answers": False, "choice": list(LABELS)}
    elif kind == "llama-server":
        made["grammar"] = GRAMMAR
    else:
        schema = {"name": "label", "strict": True, "schema": {"enum": list(LABELS)}}
        made["response_format"] = {"type": "json_schema", "json_schema": schema}
    return made


def measure(run: Run) -> dict[str, float]:
    draw = Random(run.prompts.number())
    tickets = [ticket(draw) for _ in range(run.scale.messages + 1)]
    seconds, right = [], 0
    for asked in tickets:
        (reply,) = run.ask(Part(body=body(asked, run.server.side.kind)), cold=False)
        seconds.append((reply.ended or 0.0) - reply.sent)
        right += reply.text.strip().strip('"') == asked.label
    return {"first": seconds[0], "each": 1e3 * median(seconds[1:]), "right": right / len(tickets)}


SCENARIO = Scenario(
    name="labels",
    title="Messages under eight labels",
    shows="how long one word out of eight takes",
    favours="Reame a little, which does not compute what is certain",
    metrics=(
        Metric(name="first", title="the first message", unit="s", better="lower"),
        Metric(name="each", title="each later one (median)", unit="ms", better="lower"),
        Metric(name="right", title="as the message was meant", unit="share"),
    ),
    measure=measure,
)
