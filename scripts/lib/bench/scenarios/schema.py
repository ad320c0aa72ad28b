"""Ten facts out of a new paper, as JSON of a given schema: the first paper of its kind, and the hundredth.

Shows how fast constrained answers are decoded when nothing like them was seen, and when many were. What the papers say
is new each time; what the fields are called is drawn for each round, so that the first is the first. Favours Reame:
names of fields, quotes and commas can be one way only and are written without being computed, and the hundredth is
guessed from those before. llama-server gets the same schema and may write blanks and line ends where it likes, so its
answers have more tokens: beside tokens a second there is the time of the whole answer.
"""

from __future__ import annotations

import json
from random import Random
from typing import TYPE_CHECKING, Any

from bench.client import Part
from bench.documents import Kind, paper
from bench.scenario import Metric, Run, Scenario, chat
from bench.sides import LLAMA_SERVER, NO_DRAFTS
from bench.stats import Goal

if TYPE_CHECKING:
    from bench.sse import Reply

ROOM = 320
TOGETHER = 4
MEASURED = 3
"""Papers at the beginning and at the end that are asked one by one; the middle one by its rate counts."""


def measure(run: Run) -> dict[str, float]:
    draw = Random(run.prompts.number())
    kind = Kind.drawn(draw)
    bodies = [body(kind, paper(draw)[0]) for _ in range(run.scale.documents)]
    (first,) = run.ask(Part(body=bodies[0]), cold=False)
    run.server.settle()
    between = bodies[1:-MEASURED]
    for start in range(0, len(between), TOGETHER):
        run.ask(*(Part(body=made) for made in between[start : start + TOGETHER]), cold=False)
    run.server.settle()
    last = [run.ask(Part(body=made), cold=False)[0] for made in bodies[-MEASURED:]]
    late = sorted(last, key=lambda reply: reply.decode_rate)[MEASURED // 2]
    return {
        "first": first.decode_rate,
        "late": late.decode_rate,
        "first_s": seconds(first),
        "late_s": seconds(late),
        "whole": sum(is_whole(reply.text, kind) for reply in (first, *last)) / (1 + MEASURED),
    }


def body(kind: Kind, text: str) -> dict[str, Any]:
    wanted = {"name": "paper", "strict": True, "schema": kind.schema}
    form = {"type": "json_schema", "json_schema": wanted}
    return chat(f"{kind.question}\n\n{text}", ROOM, response_format=form)


def seconds(reply: Reply) -> float:
    """Of the answer, from its first token to its end."""
    return (reply.ended or 0.0) - reply.sent - reply.first_token_s


def is_whole(text: str, kind: Kind) -> bool:
    try:
        return set(json.loads(text)) == set(kind.schema["required"])
    except (ValueError, TypeError):
        return False


SCENARIO = Scenario(
    name="schema",
    title="Ten facts as JSON, the first paper of its kind and the hundredth",
    shows="constrained answers, new and of a kind often seen (quick: the 20th)",
    favours="Reame, which does not compute what is certain and guesses what it has seen",
    metrics=(
        Metric(name="first", title="first of its kind", unit="tok/s", goals=(Goal("ratio", 1.4),)),
        Metric(name="late", title="hundredth (quick: 20th)", unit="tok/s", goals=(Goal("ratio", 1.8),)),
        Metric(name="first_s", title="first, whole answer", unit="s", better="lower"),
        Metric(name="late_s", title="hundredth (quick: 20th), whole answer", unit="s", better="lower"),
        Metric(name="whole", title="answers that fit the schema", unit="share"),
    ),
    measure=measure,
    users=TOGETHER,
    most_rounds=3,
    weight=4,
    rivals=(LLAMA_SERVER, NO_DRAFTS),
)
