"""The oracle property: whatever happens to a sequence on its way, its tokens are those of the plain loop.

Random worlds of arrivals, chunk sizes, drafts (good, absurd, too long), shared prefixes, tiny caches, preemption, failing
steps and cancels run through the real scheduler and the real step on the fake engine, whose next token depends on what
lies in the cells. After every step the scheduler's mirror of the cells must equal the engine's.
"""

from __future__ import annotations

import os
from random import Random

import pytest

from reame.core.admission import Limits
from reame.core.events import Delta, Finish
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.sequence import Sequence
from reame.core.slots import Slots
from reame.engine.fake import FakeEngine, reference_tokens
from reame.engine.step import StepRunner

NUM_WORLDS = int(os.environ.get("REAME_ORACLE_WORLDS", "3000"))


class World:
    """One random world: an engine, a scheduler, and what every request must come to."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        draw = self.random.randint
        self.engine = FakeEngine(num_cells=draw(24, 80), num_seqs=draw(2, 8), max_rows=draw(6, 24))
        self.limits = Limits(
            max_running=draw(1, min(5, self.engine.num_seqs - 1)), max_rows=self.engine.max_rows, max_sampled=draw(5, 24),
            reserve=draw(1, 8), min_wait=draw(1, 6), min_chunk=draw(1, 4),
            step_seconds=self.random.choice([0.01, 0.05, 1.0]), prefill_seconds=self.random.choice([0.01, 0.1, 1.0]),
        )  # fmt: skip
        self.scheduler = Scheduler(
            Slots(self.engine.num_cells, self.engine.num_seqs), self.limits,
            piece=self.engine.vocabulary.piece, eog_tokens=self.engine.info.eog_tokens,
        )  # fmt: skip
        self.runner = StepRunner(self.engine, self.propose)
        self.expected: dict[str, list[int]] = {}
        self.texts: dict[str, str] = {}
        self.finishes: dict[str, Finish] = {}
        self.sequences: dict[str, Sequence] = {}
        self.absent: set[str] = set()
        self.steps = 0
        self.stems = [[draw(1, 7) for _ in range(draw(1, 20))] for _ in range(3)]

    def propose(self, sequence: Sequence, drawn: tuple[int, ...]) -> tuple[int, ...]:
        """A guess: the truth, the truth with a fault in it, noise, or nothing."""
        so_far = len(sequence.tokens) - len(sequence.request.prompt) + len(drawn)
        truth = self.expected[sequence.request.id][so_far:]
        noise = [self.random.randrange(8) for _ in range(self.random.randrange(8))]
        kind = self.random.randrange(4)
        return tuple((truth[:5], truth[:2] + noise, noise, [])[kind])

    def arrive(self) -> None:
        draw = self.random.randint
        prompt = [*self.random.choice(self.stems)[: draw(1, 20)], *(draw(1, 7) for _ in range(draw(0, 6)))]
        room = self.engine.num_cells - len(prompt) + 1
        sampling = Sampling(
            temperature=self.random.choice([0.0, 0.8]), seed=draw(0, 9), presence_penalty=self.random.choice([0.0, 1.0])
        )
        request = Request(
            id=f"r{len(self.expected)}", prompt=tuple(prompt), max_tokens=min(room, self.random.choice([1, 3, 12, 40])),
            sampling=sampling, key=self.random.choice("ab"), namespace=self.random.choice("aab"),
            stop=self.random.choice([(), (), ("ab",), ("c", "bd")]),
        )  # fmt: skip
        self.expected[request.id] = reference_tokens(prompt, sampling, request.max_tokens, 8)
        self.texts[request.id] = ""
        self.sequences[request.id] = self.scheduler.add(request, self.steps)

    def step(self) -> bool:
        batch = self.scheduler.plan(self.steps)
        self.take_events()
        if batch is None:
            return False
        self.steps += 1
        assert batch.num_rows <= self.engine.max_rows
        assert sum(1 + part.num_drafted for part in batch.slices if part.samples) <= self.limits.max_sampled
        if batch.slices and self.random.random() < 0.003:
            self.engine.fail_next_decode = True
        result = self.runner.run(batch)
        self.scheduler.commit(batch, result, self.steps)
        self.take_events()
        held = [len(slot.tokens) for slot in self.scheduler.admission.slots.slots]
        assert not batch.slices or self.lengths_after_pending(held)
        return True

    def lengths_after_pending(self, held: list[int]) -> bool:
        """The mirror may only be ahead by trims that the next batch will carry (after a failed step, of empty cells)."""
        return all(have >= mirror for have, mirror in zip(self.runner.lengths(), held, strict=True))

    def take_events(self) -> None:
        for sequence, event in self.scheduler.take_events():
            name = sequence.request.id
            assert name not in self.finishes, "an event after the end"
            assert name not in self.absent, "an event after a cancel"
            if isinstance(event, Delta):
                self.texts[name] += event.text
            else:
                self.finishes[name] = event

    def run(self) -> None:
        arrivals = self.random.randint(1, 12)
        while arrivals or self.scheduler.sequences():
            if arrivals and self.random.random() < 0.4:
                self.arrive()
                arrivals -= 1
            elif self.scheduler.sequences() and self.random.random() < 0.01:
                victim = self.random.choice(self.scheduler.sequences())
                self.scheduler.cancel(victim)
                self.absent.add(victim.request.id)
            elif not self.step():
                assert arrivals, "somebody waits and nothing is done for him"
            assert self.steps < 4000, "no end in sight"
        while self.step():
            pass
        self.check()

    def check(self) -> None:
        for name, sequence in self.sequences.items():
            if name in self.absent:
                continue
            finish = self.finishes[name]
            if finish.error:
                continue
            drawn = sequence.tokens[len(sequence.request.prompt) :]
            expected, text, reason = outcome(self.expected[name], sequence.request, self.engine)
            assert (drawn, self.texts[name], finish.reason) == (expected, text, reason)
            assert finish.usage.completion_tokens == len(expected)
        slots = self.scheduler.admission.slots
        assert self.runner.lengths() == [len(slot.tokens) for slot in slots.slots]
        held = {cell for slot in slots.slots for cell in slot.cells}
        assert slots.num_free == slots.num_cells - len(held)
        assert slots.num_pinned == 0
        assert not self.runner._samplers


def outcome(drawn: list[int], request: Request, engine: FakeEngine) -> tuple[list[int], str, str]:
    """What a client must get of the plain loop's tokens, worked out the slow way: (tokens, text, reason)."""
    text = ""
    for count, token in enumerate(drawn, 1):
        if token == 0:
            return drawn[:count], text, "stop"
        text += engine.vocabulary.piece(token).decode()
        ends = [text.index(stop) for stop in request.stop if stop in text]
        if ends:
            return drawn[:count], text[: min(ends)], "stop"
    return drawn, text, "length"


@pytest.mark.parametrize("block", range(10))
def test_every_sequence_gets_the_text_of_the_plain_loop(block: int) -> None:
    for seed in range(block * NUM_WORLDS // 10, (block + 1) * NUM_WORLDS // 10):
        try:
            World(seed).run()
        except AssertionError as fault:
            raise AssertionError(f"world {seed}: {fault}") from fault


def test_the_worlds_contain_what_they_are_for() -> None:
    """Preemption, sharing, accepted and refused drafts, single flight and failures do happen in the first worlds."""
    preempted = cached = failed = cancelled = 0
    for seed in range(300):
        world = World(seed)
        world.run()
        preempted += world.scheduler.admission.num_preempted
        cached += sum(s.num_cached or 0 for s in world.sequences.values())
        failed += sum(f.error is not None for f in world.finishes.values())
        cancelled += len(world.absent)
    assert min(preempted, cached, failed, cancelled) > 10, (preempted, cached, failed, cancelled)
