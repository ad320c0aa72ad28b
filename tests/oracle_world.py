"""A random world for the oracle: arrivals, chunks, drafts, tiny caches, preemption, faults, deadlines and cancels."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import numpy as np
from attrs import evolve

from reame.core.batch import Compact, Copy, Load, Trim
from reame.core.blocks import Block
from reame.core.constraint import Constraint
from reame.core.draft import Draft
from reame.core.events import Delta, Finish, TokenLogprob
from reame.core.limits import Limits
from reame.core.request import Request, Sampling
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.engine.fake import FakeEngine, reference_tokens
from reame.engine.step import NoDrafter, StepRunner
from reame.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from numpy.typing import NDArray

    from reame.core.batch import Batch, StepResult
    from reame.core.sequence import Sequence
    from reame.engine.base import Row

VOCABULARY = 8


class StrictEngine(FakeEngine):
    """The fake, with a failed decode that leaves garbage behind, and samplers that may be freed once only."""

    def __init__(self, *, num_cells: int, num_seqs: int, max_rows: int, whole_state: bool) -> None:
        super().__init__(
            num_cells=num_cells, num_seqs=num_seqs, max_rows=max_rows, vocab_size=VOCABULARY, whole_state=whole_state
        )
        self.samplers: list[object] = []

    def decode(self, rows: Seq[Row]) -> None:
        if self.fail_next_decode:
            self.fail_next_decode = False
            super().decode([evolve(row, token=row.token % 7 + 1) for row in rows[: len(rows) // 2 + 1]])
            raise EngineError("decode failed half way, as asked")
        super().decode(rows)

    def new_sampler(self, sampling: Sampling, prompt: Seq[int]) -> object:  # type: ignore[override]
        self.samplers.append(super().new_sampler(sampling, prompt))
        return self.samplers[-1]

    def free_sampler(self, sampler: object) -> None:
        assert any(sampler is live for live in self.samplers), "a sampler was freed twice"
        self.samplers = [live for live in self.samplers if live is not sampler]

    def sample(self, row: int, sampler: object) -> int:
        assert any(sampler is live for live in self.samplers), "a sampler was used after its end"
        return super().sample(row, sampler)

    def values(self, seq: int) -> list[int]:
        return [cell.value for cell in self._held(seq)]

    @property
    def num_used(self) -> int:
        return sum(bool(cell.seqs - {-1}) for cell in self.cells)


def chain(tokens: Seq[int]) -> tuple[list[int], list[int]]:
    """What the cells of `tokens` must hold, and the state after each of them: the fake engine's rule, written anew."""
    values: list[int] = []
    states = []
    for position, token in enumerate(tokens):
        seen = tuple(values)
        values.append(hash((token, position, seen)))
        states.append(hash((values[-1], seen)))
    return values, states


class ToyMatcher:
    """A random automaton over the eight tokens: states with one way on, with some, and with none."""

    def __init__(self, constraint: Constraint) -> None:
        random = Random(constraint.source)
        self.num_states = random.randint(2, 6)
        ways = [0, 1, 1, 1, 1, 2, 3, 7]
        self.next = [
            {token: random.randrange(self.num_states) for token in random.sample(range(1, 8), random.choice(ways))}
            for _ in range(self.num_states)
        ]
        self.ends = [random.random() < 0.3 for _ in range(self.num_states)]
        self.state = 0

    @property
    def is_over(self) -> bool:
        return not self.next[self.state]

    def mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(VOCABULARY, bool)
        mask[list(self.next[self.state])] = True
        mask[0] = self.ends[self.state] or self.is_over
        return mask

    def consume(self, token: int) -> None:
        self.state = self.next[self.state][token]

    def forced(self) -> tuple[int, ...]:
        state, tokens = self.state, []
        while len(self.next[state]) == 1 and not self.ends[state] and len(tokens) < 5:
            ((token, state),) = self.next[state].items()
            tokens.append(token)
        return tuple(tokens)

    def guess(self) -> tuple[int, ...]:
        return tuple(self.next[self.state])[:1]

    def legal_prefix(self, tokens: Seq[int]) -> int:
        state = self.state
        for number, token in enumerate(tokens):
            if token not in self.next[state]:
                return number
            state = self.next[state][token]
        return len(tokens)


class Guesser(NoDrafter):
    """The truth, the truth with a fault in it, noise, or nothing; believed in more or less."""

    def __init__(self, random: Random, expected: dict[str, list[int]]) -> None:
        self._random = random
        self._expected = expected

    def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        so_far = len(sequence.tokens) - len(sequence.request.prompt) + len(drawn)
        truth = self._expected[sequence.request.id][so_far:]
        noise = [self._random.randrange(8) for _ in range(self._random.randrange(8))]
        kind = self._random.randrange(5)
        tokens = tuple((truth[:5], truth[:2] + noise, noise, list(hint), [])[kind])
        survival = self._random.choice([1.0, 0.9, 0.5])
        return Draft(tokens, tuple(survival**n for n in range(1, len(tokens) + 1)), "guess") if tokens else None


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
            rent_rows=draw(0, 60), longest_move=draw(1, 20),
            step_seconds=self.random.choice([0.01, 0.05, 1.0]), prefill_seconds=self.random.choice([0.01, 0.1, 1.0]),
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
        matcher = None
        if self.random.random() < 0.4 and request.max_tokens:
            constraint = Constraint("grammar", str(draw(0, 10**6)))
            matcher = ToyMatcher(constraint)
            begins = matcher.forced()[: request.max_tokens - 1] if self.random.random() < 0.7 else ()
            begins = () if request.prompt_logprobs else begins
            request = evolve(request, constraint=constraint, forced=self.one_to_draw(constraint, begins))
        self.expected[request.id] = reference_tokens(prompt, sampling, request.max_tokens, VOCABULARY, matcher)
        self.texts[request.id] = ""
        self.logprobs[request.id] = []
        self.sequences[request.id] = self.scheduler.add(request, self.steps, self.num_on_disk(request))

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
        work = sum(len(s.request.prompt) + s.request.max_tokens for s in self.sequences.values())
        return work + (self.scheduler.admission.preemption.num_preempted + 1) * self.engine.num_cells

    def step(self) -> bool:
        while self.loads and self.random.random() < self.disk_speed:
            load = self.loads.pop(0)
            self.scheduler.loaded(load, self.read(load), 0.001)
        batch = self.scheduler.plan(self.steps)
        self.loads += self.scheduler.take_loads()
        self.take_events()
        self.check_promises()
        if batch is None:
            return bool(self.loads)
        self.steps += 1
        assert batch.num_rows <= self.engine.max_rows
        self.check_pace(batch)
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
        self.check_mirror()
        self.store(result)
        self.note(batch, result)
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

    def check_promises(self) -> None:
        """Every running sequence can be given the cells that it was promised; no cell crosses a namespace."""
        running = [slot for slot in self.slots.slots if slot.running]
        pinned = {cell for slot in running for cell in slot.cells}
        promised = sum(s.num_reserved - s.num_computed for s in self.scheduler.running)
        assert [s.slot for s in self.scheduler.running if s.slot not in running] == []
        assert (len(running), self.slots.num_pinned) == (len(self.scheduler.running), len(pinned))
        assert all(s.cells_wanted <= s.num_reserved <= s.max_cells for s in self.scheduler.running)
        assert promised <= self.slots.num_free, "more cells promised than there are"
        self.check_idle_lane()
        owners: dict[int, str] = {}
        for slot in self.slots.slots:
            assert all(owners.setdefault(cell, slot.namespace) == slot.namespace for cell in slot.cells)

    def check_idle_lane(self) -> None:
        """Background work holds nothing that people wait for, and does not use the disk beside them."""
        admission = self.scheduler.admission
        behind = [s for s in admission.running if s.request.background]
        waiting = [s for s in admission.queue if not s.request.background]
        if behind and len(behind) < len(admission.running):
            assert not any(s.waits_for_disk for s in behind), "background work reads the disk beside people"
        if behind and waiting:
            assert any(not s.request.background and not s.decodes for s in admission.running)
            coming = [admission.prefixes.in_flight(s, admission.running) for s in waiting]
            assert all(coming), "background work keeps somebody out"

    def check_pace(self, batch: Batch) -> None:
        """Background rows make a step with people's rows in it hardly longer, but for a probe now and then."""
        people = sum(len(part.tokens) for part in batch.slices if not part.sequence.request.background)
        self.seen["rows beside people"] += (batch.num_rows - people) * bool(people)
        if batch.num_rows > people > 0:
            seconds, limit = self.scheduler.cost.seconds, 1 + self.limits.slowdown
            is_slow = seconds(batch.num_rows) > limit * seconds(people)
            self.seen["probes"] += is_slow
            assert not is_slow or batch.num_rows == people + 1, "background work slows people down"

    def check_mirror(self) -> None:
        """The engine's cells are the scheduler's, but for trims that the next batch will carry."""
        lengths = self.runner.lengths()
        pending = [op for op in self.scheduler.admission.residents.operations if isinstance(op, Trim)]
        for trim in pending:
            lengths[trim.seq] = min(lengths[trim.seq], trim.length)
        assert lengths == [len(slot.tokens) for slot in self.slots.slots]
        held = {cell for slot in self.slots.slots for cell in slot.cells}
        if not pending:
            cells = self.engine.cells
            places = [[p for p, cell in enumerate(cells) if seq in cell.seqs] for seq in range(self.engine.num_seqs)]
            assert places == [slot.cells for slot in self.slots.slots], "cells lie elsewhere than believed"
        assert self.slots.num_free == self.slots.num_cells - len(held)
        assert pending or self.engine.num_used == len(held)

    def note(self, batch: Batch, result: StepResult) -> None:
        seen = self.seen
        seen["copies"] += sum(isinstance(op, Copy) for op in batch.operations)
        seen["evictions"] += sum(op == Trim(op.seq, 0) for op in batch.operations if isinstance(op, Trim))
        seen["takeovers"] += sum(op.length > 0 for op in batch.operations if isinstance(op, Trim))
        seen["compactions"] += sum(isinstance(op, Compact) and bool(op.pieces) for op in batch.operations)
        seen["restores"] += result.num_restored
        if self.whole_state:
            seen["states kept"] += sum(isinstance(op, Copy) for op in batch.operations)
            seen["states restored"] += result.num_restored
        seen["failed restores"] += result.num_restored < len(batch.restores)
        seen["failures"] += result.error is not None
        for part, output in zip(batch.slices, result.outputs, strict=False):
            assert 0 not in output.tokens[:-1], "drawn beyond the end"
            seen["chunks"] += not part.samples
            seen["rated chunks"] += bool(output.rated)
            seen["ends of constraints"] += output.is_over
            if part.num_drafted:
                num_accepted = output.num_accepted
                how = "wholly" if num_accepted == part.num_drafted else "partly" if num_accepted else "not"
                seen[f"drafts {how} accepted"] += 1
                if part.sequence.text.stopped:
                    seen["stops in drafts"] += part.sequence.tokens[-len(output.tokens) :] != list(output.tokens)
                seen["forced beyond drafts"] += len(output.tokens) > num_accepted + 1
                seen["ends in drafts"] += output.tokens[-1] == 0 and 0 in part.tokens[-part.num_drafted :]
