"""Forty arithmetic and word problems, each answered once, and by the vote of five candidates.

Shows what consensus costs and gains: how many of the forty are right, and the wall time against that of one answer,
with early stop and without. One answer is the greedy one, which is also candidate 0. Each prompt is read beforehand, so
that times are those of answering. The three manners ask with a key each: else the greedy answer would be drafted from
what the candidates wrote, and the candidates from it. There is no rival: another server's five answers one after the
other cost five times one.
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
from bench.sides import Side
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
KEYS = {manner: f"{manner}-of-the-quiz" for manner in MANNERS}
LONGEST_S = 600.0


@define
class Score:
    right: int = 0
    seconds: float = 0.0


def measure(run: Run) -> dict[str, float]:
    scores = {manner: Score() for manner in MANNERS}
    for number, question in enumerate(quiz(run.prompts.number(), run.scale.questions)):
        order = [*MANNERS][number % 3 :] + [*MANNERS][: number % 3]
        for manner in order:
            ask(run, question.text, manner, {"max_tokens": 1})
            started = perf_counter()
            text = ask(run, question.text, manner, MANNERS[manner])
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


def ask(run: Run, question: str, manner: str, more: dict[str, Any]) -> str:
    """The answer's text, in a memory of the manner's own. Raises BenchError when there is none."""
    messages = [{"role": "user", "content": f"{question} {MANNER}"}]
    body = {"messages": messages, "max_tokens": 300, "temperature": 0, "reame": {"answers": False}} | more
    connection = HTTPConnection("127.0.0.1", run.port, timeout=LONGEST_S)
    try:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEYS[manner]}"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
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
    ours=Side("Reame", "reame", keys=tuple(KEYS.values())),
    users=CANDIDATES,
    rivals=(),
    by_default=False,
)
