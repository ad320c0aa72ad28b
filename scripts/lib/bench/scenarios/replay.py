"""A day of an office in a few minutes: questions, papers, JSON, conversations and letters, as they come.

Shows the product's claim, "the longer it runs, the cheaper it gets": hour by hour, which share of all tokens so far
(prompts and answers) needed no computing of its own, and what a request has cost in processor seconds. What repeats
and how often is in `bench/day.py`; the claim stands and falls with it. Favours Reame, which is made for this: it keeps
old answers (on, as by default: a question asked again word for word gets the old answer), old prefixes, and guesses
from what it wrote. llama-server has four slots, its cache of old prompts, and in a second rival its n-gram
speculation. Tokens are as each server itself counts them, and a token guessed right counts as not computed though it
was verified; processor seconds are the kernel's. Each round is another day, on a server that has lived the ones before.
"""

from __future__ import annotations

from random import Random
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

from bench.client import Part
from bench.day import HOURS, Asked, day
from bench.scenario import Metric, Run, Scenario, completion
from bench.sides import LLAMA_SERVER, SPECULATING

if TYPE_CHECKING:
    from bench.sse import Reply

USERS = 4


def measure(run: Run) -> dict[str, float]:
    draw = Random(run.prompts.number())
    asked = day(draw, run.prompts, requests=run.scale.day, answer_tokens=run.scale.answer_tokens)
    replies: list[Reply] = []
    avoided: list[tuple[float, float]] = []
    cost: list[tuple[float, float]] = []
    begun, started = perf_counter(), run.server.cpu_s
    for hour in range(len(HOURS)):
        news = run.ask(*(part(request) for request in asked if request.hour == hour), cold=False)
        if not news:
            continue
        replies += news
        avoided.append((hour + 1, share_avoided(replies)))
        now = run.server.cpu_s
        if started is not None and now is not None:
            cost.append((hour + 1, (now - started) / len(replies)))
    run.curves |= {"avoided": avoided} | ({"cost": cost} if cost else {})
    values = {
        "avoided": 100 * avoided[-1][1],
        "first_token": median(reply.first_token_s for reply in replies),
        "whole": median((reply.ended or 0.0) - reply.sent for reply in replies),
        "seconds": perf_counter() - begun,
    }
    return values | ({"cpu": cost[-1][1]} if cost else {})


def part(asked: Asked) -> Part:
    body = completion("", 0) | asked.body
    del body["prompt"]
    return Part(body=body, at=asked.at)


def share_avoided(replies: list[Reply]) -> float:
    """Of all tokens of prompts and answers, those that no step was computed for."""
    whole = sum(reply.prompt_tokens + reply.completion_tokens for reply in replies)
    return sum(reply.cached_tokens + reply.skipped_tokens for reply in replies) / whole


SCENARIO = Scenario(
    name="replay",
    title="A day of an office",
    shows="the longer it runs, the cheaper it gets",
    favours="Reame, which is made for this",
    metrics=(
        Metric(name="avoided", title="tokens not computed", unit="%"),
        Metric(name="cpu", title="processor time of a request", unit="s", better="lower"),
        Metric(name="first_token", title="first token, median", unit="s", better="lower"),
        Metric(name="whole", title="whole answer, median", unit="s", better="lower"),
        Metric(name="seconds", title="the whole day, compressed", unit="s", better="lower"),
    ),
    measure=measure,
    users=USERS,
    cells=12_288,
    most_rounds=3,
    weight=5,
    rivals=(LLAMA_SERVER, SPECULATING),
)
