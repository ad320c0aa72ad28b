"""Losslessness of drafts with the real small model: the same requests with each source of drafts, and without."""

from __future__ import annotations

import json
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from reame.constraint.compiler import ConstraintCompiler
from reame.constraint.tokens import tokens_of
from reame.core.constraint import Constraint
from reame.core.events import Delta, Finish
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.step import StepRunner
from reame.memory.archive import Archive
from reame.speculation.drafter import Drafter
from reame.speculation.forms import guess
from reame.speculation.sources import Archived, Companions, Forms, Hint, PromptLookup, Realigned, Source

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reame.engine.base import Engine

TOPICS = (
    "rivers", "kitchen tools", "old trades", "birds", "board games", "vegetables", "cities by the sea", "instruments",
)  # fmt: skip
TASKS = (
    "Write a numbered list of five {}.",
    "Repeat: {0}, {0} and {0} again. Then say it once more.",
    'Give a JSON object with keys "name" and "kind" about {}.',
    "Write two sentences about {}.",
    "Write a table with two columns about {}.",
)
SCHEMA = Constraint(
    "json_schema",
    json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 30},
                "kind": {"enum": ["tool", "animal", "plant", "place"]},
                "amount": {"type": "integer"},
            },
            "required": ["name", "kind", "amount"],
            "additionalProperties": False,
        }
    ),
)
SOURCES = ("prompt", "live", "palimpsest", "forms")


@frozen
class Told:
    """All that a client learns."""

    text: str
    reason: str | None
    prompt_tokens: int
    completion_tokens: int


def requests(engine: Engine, count: int, answer: int) -> list[Request]:
    """In fours: greedy and seeded at 0.8, free and under a schema."""
    random = Random(11)
    made = []
    for number in range(count):
        task = random.choice(TASKS).format(random.choice(TOPICS))
        text = f"<|im_start|>user\n{task}<|im_end|>\n<|im_start|>assistant\n"
        prompt = tuple(engine.vocabulary.tokenize(text, add_special=True, parse_special=True))
        for sampling in (Sampling(temperature=0), Sampling(temperature=0.8, seed=number)):
            free = Request(
                id=f"r{len(made)}", prompt=prompt, max_tokens=answer, sampling=sampling, stop=("\n\n\n",)
            )
            made += [free, evolve(free, id=f"r{len(made) + 1}", constraint=SCHEMA)]
    return made


def compiler(engine: Engine) -> ConstraintCompiler:
    made = ConstraintCompiler(partial(tokens_of, engine.vocabulary, engine.info.vocab_size, engine.info.eog_tokens))
    made.compile(SCHEMA)
    return made


def drafter(engine: Engine, archive: Archive, names: Sequence[str]) -> Drafter:
    made = Drafter(engine.vocabulary.piece)

    def tokenize(text: str) -> list[int]:
        return engine.vocabulary.tokenize(text, add_special=False, parse_special=False)

    sources: dict[str, Source] = {
        "prompt": PromptLookup(),
        "live": Companions(made.texts),
        "forms": Forms(guess, tokenize, engine.vocabulary.piece),
        "palimpsest": Archived(
            lambda tail, namespace: archive.continuations(tail, namespace=namespace, most=64), archive.place
        ),
    }
    made.sources += [Hint(), *(sources[name] for name in names), Realigned()]
    return made


def open_archive(engine: Engine, folder: Path) -> Archive:
    archive = Archive(folder, fingerprint=bytes(32), vocab_size=engine.info.vocab_size, budget_bytes=64 << 20)
    archive.prepare(namespace="")
    return archive


class Matrix:
    """Runs requests with any sources, alone (one after the other) or `users` at once. `accepted` counts by source."""

    def __init__(self, engine: Engine, archive: Archive) -> None:
        self._engine = engine
        self._archive = archive
        self._constraints = compiler(engine)
        self.accepted: dict[str, int] = {}

    def close(self) -> None:
        self._constraints.close()
        self._archive.close()

    def _begun(self, request: Request) -> Request:
        """With what its constraint forces generated before it runs."""
        if request.constraint is None:
            return request
        return evolve(request, forced=self._constraints.matcher(request.constraint).forced()[: request.max_tokens - 1])

    def run(self, asked: Sequence[Request], names: Sequence[str], users: int, *, keep: bool = False) -> dict[str, Told]:
        """What each request is told. The more rows a step has the less it seems to take: every draft seems to pay."""
        engine = self._engine
        scheduler = Scheduler(
            Slots(engine.num_cells, engine.num_seqs),
            Limits(max_running=users, max_rows=engine.max_rows, max_sampled=64),
            piece=engine.vocabulary.piece,
            eog_tokens=engine.info.eog_tokens,
        )
        runner = StepRunner(engine, drafter(engine, self._archive, names), self._constraints.matcher)
        told: dict[str, Told] = {}
        texts = {request.id: "" for request in asked}
        for request in asked:
            scheduler.add(self._begun(request) if names else request, 0.0)
        while (plan := scheduler.plan(0.0)) is not None:
            scheduler.commit(plan, evolve(runner.run(plan), seconds=0.01 / max(1, plan.num_rows)), 0.0)
            for sequence, event in scheduler.take_events():
                name = sequence.request.id
                if isinstance(event, Delta):
                    texts[name] += event.text
                    continue
                assert isinstance(event, Finish)
                assert event.error is None
                usage = event.usage
                told[name] = Told(texts[name], event.reason, usage.prompt_tokens, usage.completion_tokens)
                if keep:
                    self._archive.append(sequence.tokens[len(sequence.request.prompt) :], namespace="")
        for source, count in scheduler.drafts.items():
            self.accepted[source] = self.accepted.get(source, 0) + count.accepted
        for seq in range(engine.num_seqs):
            engine.trim(seq, 0)
        engine.compact(())
        return told
