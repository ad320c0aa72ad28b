"""A random world for the oracle: arrivals, chunks, drafts, tiny caches, preemption, faults, deadlines and cancels."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

from attrs import evolve
from oracle_checks import check_mirror, check_pace, check_promises, note
from oracle_parts import VOCABULARY, Guesser, Speller, StrictEngine, ToyMatcher

from reame.core.blocks import Block
from reame.core.constraint import Constraint
from reame.core.events import Delta, Finish, TokenLogprob
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.fake import reference_tokens
from reame.engine.step import StepRunner

if TYPE_CHECKING:
    from reame.core.batch import Load, StepResult
    from reame.core.constraint import Matcher
    from reame.core.sequence import Sequence


class World:
    """An engine, a scheduler, and what every request must come to. `seen` counts what happened in it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        draw = self.random.randint
        most_cells = self.random.choice([36, 80])
        self.whole_state = seed % 4 == 3
        self.engine = StrictEngine(
            num_cells=draw(24, most_cells), num_seqs=draw(1, 8), max_rows=draw(6, 24), whole_state=self.whole_state
        )
        self.limits = Limits(
            max_running=draw(1, min(5, self.engine.num_seqs)), max_rows=self.engine.max_rows, max_sampled=draw(5, 24),
            reserve=draw(1, 8), min_wait=draw(1, 6), min_chunk=draw(1, 4), min_garbage=draw(1, 40),
            rent_rows=draw(0, 60), longest_move=draw(1, 20), row_group=Random(seed).choice([1, 1, 2, 3, 4]),
            step_seconds=self.random.choice([0.01, 0.05, 1.0]), prefill_seconds=self.random.choice([0.01, 0.1, 1.0]),
            lone_seconds=Random(seed).choice([0.05, 1.0]),
        )  # fmt: skip
        if self.whole_state:
            self.limits = evolve(self.limits, stride=Random(seed).randint(3, 30), trail=Random(seed).randint(1, 9))
        self.block_tokens = self.random.choice([0, 1, 2, 3, 5, 8])
        self.disk_speed = self.random.choice([0.1, 0.7, 1.0])
        self.loads: list[Load] = []
        self.disk: dict[tuple[str, tuple[int, ...]], bytes] = {}
        self.scheduler = Scheduler(
            Slots(self.engine.num_cells, self.engine.num_seqs, whole_state=self.whole_state), self.limits,
            piece=self.engine.vocabulary.piece, eog_tokens=self.engine.info.eog_tokens, block_tokens=self.block_tokens,
        )  # fmt: skip
        self.slots = self.scheduler.admission.slots
        self.expected: dict[str, list[int]] = {}
        self.runner = StepRunner(self.engine, Guesser(self.random, self.expected), ToyMatcher)
        self.seconds_per_step = self.random.choice([0.0, 0.01])
        self.seconds_per_row = self.random.choice([0.0001, 0.001, 0.005, 0.02])
        self.stems = [[draw(1, 7) for _ in range(draw(1, 20))] for _ in range(3)]
        self.texts: dict[str, str] = {}
        self.logprobs: dict[str, list[TokenLogprob]] = {}
        self.rated: dict[str, tuple[TokenLogprob, ...]] = {}
        self.finishes: dict[str, Finish] = {}
        self.sequences: dict[str, Sequence] = {}
        self.absent: set[str] = set()
        self.seen: Counter[str] = Counter()
        self.steps = 0

    def arrive(self) -> None:
        draw, choice = self.random.randint, self.random.choice
        prompt = [*choice(self.stems)[: draw(1, 20)], *(draw(1, 7) for _ in range(draw(0, 6)))]
        prompt = prompt[: self.engine.num_cells]
        room = self.engine.num_cells - len(prompt) + 1
        sampling = Sampling(temperature=choice([0.0, 0.8]), seed=draw(0, 9), presence_penalty=choice([0.0, 1.0]))
        background = self.random.random() < 0.1
        request = Request(
            id=f"r{len(self.expected)}", prompt=tuple(prompt), background=background,
            max_tokens=0 if background and self.random.random() < 0.7 else min(room, choice([1, 3, 12, 40])),
            sampling=sampling, key=choice("ab"), namespace=choice("aab"), stop=choice([(), (), ("ab",), ("c", "bd")]),
            logprobs=(logprobs := choice([None, None, 0, 2])),
            prompt_logprobs=logprobs is not None and not background and self.random.random() < 0.2,
            deadline=self.steps + draw(1, 30) if self.random.random() < 0.05 else float("inf"),
        )  # fmt: skip
        if request.prompt_logprobs and self.random.random() < 0.4:
            request = evolve(request, max_tokens=0)
        matcher: Matcher | None = None
        if self.random.random() < 0.4 and request.max_tokens:
            constraint = Constraint("grammar", str(draw(0, 10**6)))
            matcher = ToyMatcher(constraint)
            begins = matcher.forced()[: request.max_tokens - 1] if self.random.random() < 0.7 else ()
            begins = () if request.prompt_logprobs else begins
            request = evolve(request, constraint=constraint, forced=self.one_to_draw(constraint, begins))
        elif request.logprobs is None and request.max_tokens:
            request = self.healed(request, room)
            matcher = Speller(request.healed)
        most = request.max_tokens + request.most_again
        self.expected[request.id] = reference_tokens(prompt, sampling, most, VOCABULARY, matcher)
        self.texts[request.id] = ""
        self.logprobs[request.id] = []
        self.sequences[request.id] = self.scheduler.add(request, self.steps, self.num_on_disk(request))

    def healed(self, request: Request, room: int) -> Request:
        """Perhaps it has to spell something first."""
        random = Random(f"{request.prompt} {self.steps}")
        healed = random.choice([b"", b"", b"a", b"bab", b"cabab"])
        self.seen["healed"] += bool(healed)
        return evolve(request, healed=healed, most_again=min(len(healed), room - request.max_tokens))

    def one_to_draw(self, constraint: Constraint, forced: tuple[int, ...]) -> tuple[int, ...]:
        """What is forced at first may not be all there is."""
        matcher = ToyMatcher(constraint)
        for token in forced:
            matcher.consume(token)
        return forced[:-1] if matcher.is_over else forced

    def num_on_disk(self, request: Request) -> int:
        size, stop = self.block_tokens, 0
        if self.whole_state:
            stops = range(0, len(request.prompt), size or 1)
            return max(n for n in stops if not n or (request.namespace, request.prompt[:n]) in self.disk)
        while size and (request.namespace, request.prompt[: stop + size]) in self.disk and len(request.prompt) > stop:
            stop += size
        return stop if self.random.random() < 0.9 else self.random.randint(0, 40)

    def read(self, load: Load) -> tuple[Block, ...]:
        """The blocks asked for; sometimes the end, or all of it, is gone meanwhile, or a block is damaged."""
        sequence, size, found = load.sequence, self.block_tokens, []
        if self.whole_state:
            return self.read_state(load)
        for start in range(load.start, load.stop, size):
            payload = self.disk.get((sequence.request.namespace, tuple(sequence.tokens[: start + size])))
            if payload is None or self.random.random() < 0.05:
                break
            if self.random.random() < 0.03:
                payload = b"damaged"
            found.append(Block(b"", b"", start // size, tuple(sequence.tokens[start : start + size]), payload))
        return tuple(found)

    def read_state(self, load: Load) -> tuple[Block, ...]:
        """The longest that can be had."""
        assert load.start == 0
        sequence = load.sequence
        for stop in range(load.stop, 0, -self.block_tokens):
            tokens = tuple(sequence.tokens[:stop])
            payload = self.disk.get((sequence.request.namespace, tokens))
            if payload is not None and self.random.random() < 0.95:
                return (Block(b"", b"", 0, tokens, payload if self.random.random() < 0.97 else b"damaged"),)
        return ()

    def store(self, result: StepResult) -> None:
        """Most of what was saved reaches the disk."""
        for each in result.saved:
            save, size = each.save, each.save.block_tokens
            assert len(each.payloads) * size == len(save.tokens) - save.start
            for number, payload in enumerate(each.payloads, 1):
                if self.random.random() < 0.95:
                    self.disk[save.namespace, save.tokens[: save.start + number * size]] = payload
            self.seen["saves"] += 1

    def run(self) -> None:
        """Until all that came is over; cancels are few, as they would hide that somebody starves."""
        arrivals = self.random.randint(1, 12)
        while arrivals or self.scheduler.sequences():
            if arrivals and self.random.random() < 0.4:
                self.arrive()
                arrivals -= 1
            elif self.scheduler.sequences() and self.random.random() < 0.005:
                self.take_events()
                victim = self.random.choice(self.scheduler.sequences())
                self.scheduler.cancel(victim)
                self.absent.add(victim.request.id)
            elif not self.step():
                assert arrivals, "somebody waits and nothing is done for him"
            assert self.steps <= self.most_steps(), "no end in sight"
        while self.step():
            pass

    def most_steps(self) -> int:
        """Every step computes a row at least for good, but for those that preemption takes back."""
        work = sum(s.max_cells + 1 for s in self.sequences.values())
        return work + (self.scheduler.admission.preemption.num_preempted + 1) * self.engine.num_cells

    def step(self) -> bool:
        while self.loads and self.random.random() < self.disk_speed:
            load = self.loads.pop(0)
            self.scheduler.loaded(load, self.read(load), 0.001)
        batch = self.scheduler.plan(self.steps)
        self.loads += self.scheduler.take_loads()
        self.take_events()
        self.planned()
        if batch is None:
            return bool(self.loads)
        self.steps += 1
        assert batch.num_rows <= self.engine.max_rows
        check_pace(self, batch)
        num_sampled = sum(1 + part.num_drafted for part in batch.slices if part.samples)
        assert num_sampled + sum(len(part.rated) for part in batch.slices) <= self.limits.max_sampled
        if batch.slices and self.random.random() < 0.006:
            self.engine.fail_next_decode = True
        if batch.restores and self.random.random() < 0.02:
            self.engine.fail_next_restore = True
        result = self.runner.run(batch)
        result = evolve(result, seconds=self.seconds_per_step + batch.num_rows * self.seconds_per_row)
        self.scheduler.commit(batch, result, self.steps)
        self.take_events()
        check_mirror(self)
        self.store(result)
        note(self, batch, result)
        return True

    def take_events(self) -> None:
        for sequence, event in self.scheduler.take_events():
            name = sequence.request.id
            assert name not in self.finishes, "an event after the end"
            assert name not in self.absent, "an event after a cancel"
            if isinstance(event, Delta):
                self.texts[name] += event.text
                assert event.num_computed <= len(sequence.request.prompt)
                self.logprobs[name] += event.logprobs
                assert not event.prompt_logprobs or (name not in self.rated and not self.texts[name])
                self.rated |= {name: event.prompt_logprobs} if event.prompt_logprobs else {}
            else:
                self.finishes[name] = event

    def planned(self) -> None:
        """After each plan, before its step."""
        check_promises(self)
