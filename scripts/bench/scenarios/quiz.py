"""Forty arithmetic and word problems, each answered once, and by the vote of five candidates.

Shows what consensus costs and gains: how many of the forty are right, and the wall time against that of one answer,
with early stop and without. One answer is the greedy one, which is also candidate 0. Each prompt is read beforehand, so
that times are those of answering; the three manners take turns in being first, as later ones may be helped by what
earlier ones left behind. There is no rival: another server's five answers one after the other cost five times one.
"""

from __future__ import annotations

import json
from fractions import Fraction
from http.client import HTTPConnection, HTTPException
from time import perf_counter
from typing import Any

from attrs import define

from bench.errors import BenchError
from bench.quiz import quiz
from bench.scenario import Metric, Run, Scenario
from bench.stats import Goal
from reame.core.vote_number import canonical, final_number

CANDIDATES = 5
TIME, GAIN = Goal("value", 2.2), Goal("value", 2.0, "1.5b")
MANNER = "Think step by step, in a few short sentences. Then write the final number on a last line 'Answer: ...'."
MANNERS: dict[str, dict[str, Any]] = {
    "single": {},
    "early": {"best_of": CANDIDATES, "reame": {"answers": False, "vote": "number"}},
    "full": {"best_of": CANDIDATES, "reame": {"answers": False, "vote": "number", "early_stop": False}},
}
LONGEST_S = 600.0


@define
class Score:
    right: int = 0
    seconds: float = 0.0


def measure(run: Run) -> dict[str, float]:
    scores = {manner: Score() for manner in MANNERS}
    for number, question in enumerate(quiz(run.prompts.number(), run.scale.questions)):
        ask(run, question.text, {"max_tokens": 1})
        order = [*MANNERS][number % 3 :] + [*MANNERS][: number % 3]
        for manner in order:
            started = perf_counter()
            text = ask(run, question.text, MANNERS[manner])
            scores[manner].seconds += perf_counter() - started
            scores[manner].right += final_number(text) == canonical(Fraction(question.answer))
    single, early, full = scores.values()
    return {
        "single": single.right,
        "elected": early.right,
        "gain": early.right - single.right,
        "seconds": single.seconds,
        "early": early.seconds / single.seconds,
        "full": full.seconds / single.seconds,
    }


def ask(run: Run, question: str, more: dict[str, Any]) -> str:
    """The answer's text. Raises BenchError when there is none."""
    messages = [{"role": "user", "content": f"{question} {MANNER}"}]
    body = {"messages": messages, "max_tokens": 300, "temperature": 0, "reame": {"answers": False}} | more
    connection = HTTPConnection("127.0.0.1", run.port, timeout=LONGEST_S)
    try:
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        reply = json.loads(connection.getresponse().read())
    except (OSError, HTTPException, ValueError) as error:
        raise BenchError(f"the connection to the server broke: {error}") from error
    finally:
        connection.close()
    if "error" in reply:
        raise BenchError(f"the server refused a question: {reply['error']['message']}")
    run.prompt_tokens.append(reply["usage"]["prompt_tokens"])
    text: str = reply["choices"][0]["message"]["content"]
    return text


SCENARIO = Scenario(
    name="quiz",
    title="Forty problems, one answer and the vote of five candidates",
    shows="what consensus costs and gains",
    favours="Reame: there is no rival",
    metrics=(
        Metric(name="single", title="right by one answer", unit="problems"),
        Metric(name="elected", title="right by vote", unit="problems"),
        Metric(name="gain", title="more right by vote", unit="problems", goals=(GAIN,)),
        Metric(name="seconds", title="all of them, one answer each", unit="s", better="lower"),
        Metric(name="early", title="time of a vote by one answer", unit="x", better="lower", goals=(TIME,)),
        Metric(name="full", title="the same, all heard to the end", unit="x", better="lower"),
    ),
    measure=measure,
    users=CANDIDATES,
    rivals=(),
    by_default=False,
)
