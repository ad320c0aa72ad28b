"""A day of a small office's requests, drawn from a seed: who asks what, and when. Pure.

What repeats, and how much of it, is told here and nowhere else. Of a hundred requests about
30 are questions to one of three assistants (a system prompt of about 250 tokens each), drawn from forty by Zipf's law:
   a few are asked again and again, word for word, most once or never;
25 are questions about one of a few papers of about 500 tokens, two thirds of them about one that was asked of before;
20 ask for ten facts of a new paper as JSON, all of one kind;
15 go on in a conversation, which is sent whole each time, as clients do;
10 ask for a letter like others, with other names and numbers.
Arrivals follow an office's day: hardly any at night, peaks at ten and at three.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from attrs import Factory, define, frozen

from bench.documents import Kind, paper
from bench.tickets import GOODS, NAMES, ticket

if TYPE_CHECKING:
    from random import Random

    from bench.prompts import Prompts

HOURS = (1, 1, 1, 1, 1, 2, 3, 6, 9, 11, 12, 10, 6, 8, 10, 11, 9, 7, 4, 3, 3, 2, 2, 1)
"""How many of 124 requests come in each hour."""
KINDS = {"question": 30, "paper": 25, "facts": 20, "talk": 15, "letter": 10}
ASSISTANTS, QUESTIONS = 3, 40
HOUR_S = 2.0
"""An hour of the day, compressed; a server that is slower than its requests come makes the next hour begin later."""


@frozen
class Asked:
    """`at`: seconds after the begin of `hour`, compressed. `body`: messages and limits of a chat."""

    hour: int
    at: float
    kind: str
    body: dict[str, Any]


@define
class Talk:
    """A conversation so far. What the assistant said is ours, so that all servers are sent the same."""

    messages: list[dict[str, str]]


@define
class Office:
    """What there is to ask about; it grows with the day."""

    draw: Random
    prompts: Prompts
    answer_tokens: int
    systems: list[str] = Factory(list)
    questions: list[str] = Factory(list)
    papers: list[str] = Factory(list)
    talks: list[Talk] = Factory(list)
    kind: Kind = Factory(lambda self: Kind.drawn(self.draw), takes_self=True)

    def __attrs_post_init__(self) -> None:
        self.systems = [f"You answer for office {n}. {self.prompts.text(240)}." for n in range(ASSISTANTS)]
        self.questions = [f"{ticket(self.draw).text} What should we answer?" for _ in range(QUESTIONS)]

    def ask(self, kind: str) -> dict[str, Any]:
        return getattr(self, f"_{kind}")()  # type: ignore[no-any-return]

    def _question(self) -> dict[str, Any]:
        rank = self.draw.choices(range(QUESTIONS), [1 / (place + 1) for place in range(QUESTIONS)])[0]
        system = self.systems[rank % ASSISTANTS]
        return self._chat([("system", system), ("user", self.questions[rank])], self.answer_tokens // 2)

    def _paper(self) -> dict[str, Any]:
        if not self.papers or self.draw.random() < 1 / 3:
            self.papers.append(self.prompts.text(500))
        text = self.draw.choice(self.papers[-6:])
        asked = f"{text}.\n\nWhat does it say about {self.draw.choice(GOODS)} and {self.prompts.text(6)}?"
        return self._chat([("user", asked)], self.answer_tokens // 2)

    def _facts(self) -> dict[str, Any]:
        form = {"type": "json_schema", "json_schema": {"name": "paper", "schema": self.kind.schema}}
        asked = f"{self.kind.question}\n\n{paper(self.draw)[0]}"
        return self._chat([("user", asked)], 320) | {"response_format": form}

    def _talk(self) -> dict[str, Any]:
        if not self.talks or self.draw.random() < 1 / 4:
            self.talks.append(Talk([]))
        talk = self.draw.choice(self.talks[-3:])
        if talk.messages:
            talk.messages.append({"role": "assistant", "content": f"{self.prompts.text(60)}."})
        talk.messages.append({"role": "user", "content": f"{self.prompts.text(25)}?"})
        return {"messages": list(talk.messages), "max_tokens": self.answer_tokens // 2}

    def _letter(self) -> dict[str, Any]:
        asked = (
            f"Write a short letter to customer {self.draw.choice(NAMES)}: the {self.draw.choice(GOODS)} of order "
            f"{self.draw.randint(10_000, 99_999)} will come {self.draw.randint(2, 9)} days late. Apologise."
        )
        return self._chat([("user", asked)], self.answer_tokens)

    @staticmethod
    def _chat(messages: list[tuple[str, str]], most: int) -> dict[str, Any]:
        return {"messages": [{"role": role, "content": text} for role, text in messages], "max_tokens": most}


def day(draw: Random, prompts: Prompts, *, requests: int, answer_tokens: int) -> list[Asked]:
    """`requests` of them, in the order in which they come."""
    office = Office(draw, prompts, answer_tokens)
    edges = list(accumulate(HOURS))
    moments = sorted(draw.uniform(0, edges[-1]) for _ in range(requests))
    out = []
    for moment in moments:
        hour = next(number for number, edge in enumerate(edges) if moment <= edge)
        within = (moment - edges[hour] + HOURS[hour]) / HOURS[hour]
        kind = draw.choices(list(KINDS), list(KINDS.values()))[0]
        out.append(Asked(hour, HOUR_S * within, kind, office.ask(kind)))
    return out
