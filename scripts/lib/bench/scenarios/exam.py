"""Twenty questions about one page of a business, in three shapes: prose, tidied with headings, and `label: value`.

Shows what the shape of a page does to answers, and what a page costs until the first token: the first question reads
it, the others find it. Questions are nasty on purpose: nearly the same prices, negations, conditions, facts from the
last line. How many are right is the model's merit and should be the same on both sides, except where a tie between two
tokens falls differently. Favours nobody.
"""

from __future__ import annotations

from statistics import median
from typing import Any

from bench.client import Part
from bench.exam_page import SHAPES
from bench.exam_questions import QUESTIONS, Asked
from bench.scenario import Metric, Run, Scenario, chat

ANSWER = 48
TASK = "You answer for the business whose page follows. Use the page only, and answer in one short sentence."


def measure(run: Run) -> dict[str, float]:
    values: dict[str, float] = {}
    for shape, page in SHAPES.items():
        system = f"{TASK} Ticket {run.prompts.number()}.\n\n{page}"  # so that no round finds what another one read
        replies = [run.ask(Part(body=body(system, asked)), cold=False)[0] for asked in QUESTIONS]
        pairs = zip(QUESTIONS, replies, strict=True)
        values[f"{shape}_right"] = sum(asked.is_right(reply.text) for asked, reply in pairs)
        values[f"{shape}_read"] = replies[0].first_token_s
        values[f"{shape}_later"] = 1e3 * median(reply.first_token_s for reply in replies[1:])
    return values


def body(system: str, asked: Asked) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": asked.text}]
    return chat("", ANSWER) | {"messages": messages}


SCENARIO = Scenario(
    name="exam",
    title="Twenty questions about one page in three shapes",
    shows="what the shape of a page does to answers, and what a page costs",
    favours="nobody",
    metrics=tuple(
        metric
        for shape in SHAPES
        for metric in (
            Metric(name=f"{shape}_right", title=f"{shape}: right", unit="of 20"),
            Metric(name=f"{shape}_read", title=f"{shape}: first token, page unread", unit="s", better="lower"),
            Metric(name=f"{shape}_later", title=f"{shape}: first token, page read", unit="ms", better="lower"),
        )
    ),
    measure=measure,
    by_default=False,
    most_rounds=3,
)
