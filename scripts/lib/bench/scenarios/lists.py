"""Numbered lists of things never asked for before.

Shows what guesses at form give (the next number, the indentation), where the content is new. Favours Reame.
"""

from __future__ import annotations

from random import Random

from bench.client import Part
from bench.scenario import Metric, Run, Scenario, chat
from bench.sides import LLAMA_SERVER, NO_DRAFTS, SPECULATING
from bench.stats import Goal

TOPICS = (
    "kitchen tools", "animals of the sea", "things to pack for a week of hiking", "words for the weather", "old trades",
    "musical instruments", "cheap gifts", "garden vegetables", "board games", "reasons to move to a small town",
    "rules for a shared flat", "questions for a job interview", "sports played with a ball",
    "rivers and their countries",
)  # fmt: skip


def measure(run: Run) -> dict[str, float]:
    random = Random(run.prompts.number())
    topic = random.choice(TOPICS)
    task = f"Write a numbered list of {random.randint(20, 30)} {topic}, one or two words each, nothing else."
    (reply,) = run.ask(Part(body=chat(task, run.scale.answer_tokens)), cold=False)
    return {"rate": reply.decode_rate}


SCENARIO = Scenario(
    name="lists",
    title="A new numbered list",
    shows="guesses at form where the content is new",
    favours="Reame",
    metrics=(Metric(name="rate", title="decode", unit="tok/s", goals=(Goal("ratio", 1.2),)),),
    measure=measure,
    rivals=(NO_DRAFTS, LLAMA_SERVER, SPECULATING),
)
