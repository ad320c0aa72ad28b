"""The oracle property: whatever happens to a sequence on its way, its tokens are those of the plain loop.

Random worlds of arrivals, chunk sizes, drafts (good, absurd, too long), shared prefixes, tiny caches, preemption,
failing steps, deadlines and cancels run through the real scheduler and the real step on the fake engine, whose next
token depends on what lies in the cells. After every step the scheduler's mirror of the cells must equal the engine's.
"""

from __future__ import annotations

import os
from collections import Counter
from math import isnan
from typing import TYPE_CHECKING

import pytest
from oracle_parts import ToyMatcher, chain
from oracle_world import World

if TYPE_CHECKING:
    from reame.core.request import Request
    from reame.core.sequence import Sequence
    from reame.engine.fake import FakeEngine

NUM_WORLDS = int(os.environ.get("REAME_ORACLE_WORLDS", "3000"))


def outcome(drawn: list[int], request: Request, engine: FakeEngine) -> tuple[list[int], str, str]:
    """What a client must get of the plain loop's tokens, worked out the slow way: (tokens, text, reason)."""
    if not drawn:
        return [], "", "stop" if request.background else "length"
    text, rest, num_beyond = "", len(request.healed), 0
    for count, token in enumerate(drawn, 1):
        if token == 0:
            return drawn[:count], text, "stop"
        piece = engine.vocabulary.piece(token).decode()
        num_beyond += len(piece) > rest
        text, rest = text + piece[rest:], max(0, rest - len(piece))
        ends = [text.index(stop) for stop in request.stop if stop in text]
        if ends:
            return drawn[:count], text[: min(ends)], "stop"
        if request.healed and num_beyond == request.max_tokens:
            return drawn[:count], text, "length"
    matcher = ToyMatcher(request.constraint) if request.constraint else None
    for token in drawn if matcher else ():
        matcher.consume(token)
    return drawn, text, "stop" if matcher and matcher.is_over else "length"


def check_sequence(world: World, name: str, sequence: Sequence) -> None:
    """Who reached the end has the plain loop's text; who did not (a fault, a deadline, a cancel) a beginning of it."""
    request, told = sequence.request, world.logprobs[name]
    tokens, text, reason = outcome(world.expected[name], request, world.engine)
    drawn = sequence.tokens[len(request.prompt) :]
    check_logprobs(world, name, sequence)
    check_rated(world, name, sequence)
    if name in world.absent:
        assert name not in world.finishes
    elif not world.finishes[name].error:
        finish = world.finishes[name]
        assert (drawn, world.texts[name], finish.reason) == (tokens, text, reason)
        assert finish.usage.completion_tokens == len(tokens)
        assert finish.usage.cached_tokens < len(request.prompt) + bool(request.forced)
        if request.logprobs is not None and not sequence.text.stopped:
            assert [entry.token for entry in told] == [token for token in tokens if token]
        return
    assert drawn == tokens[: len(drawn)]
    assert text.startswith(world.texts[name])


def check_logprobs(world: World, name: str, sequence: Sequence) -> None:
    """Each is that of the cell before its token, or certain if it was forced; none is of a token whose text became a
    stop string."""
    request, told = sequence.request, world.logprobs[name]
    _, states = chain(sequence.tokens)
    matcher = ToyMatcher(request.constraint) if request.constraint else None
    for place, entry in enumerate(told, len(request.prompt)):
        forced = matcher is not None and matcher.forced() != ()
        logprob = 0.0 if forced else -1.0 - states[place - 1] % 7
        assert (entry.token, entry.logprob) == (sequence.tokens[place], logprob)
        assert len(entry.top) == (min(1, request.logprobs or 0) if forced else request.logprobs)
        if matcher:
            matcher.consume(entry.token)
    assert world.texts[name].startswith(b"".join(entry.piece for entry in told).decode())


def check_rated(world: World, name: str, sequence: Sequence) -> None:
    """A prompt is rated once and whole, by the cells before each token, whatever of it was in the cache."""
    prompt, rated = sequence.request.prompt, world.rated.get(name, ())
    if rated:
        assert sequence.request.prompt_logprobs
        assert [entry.token for entry in rated] == list(prompt)
        assert isnan(rated[0].logprob)
        _, states = chain(prompt)
        assert [entry.logprob for entry in rated[1:]] == [-1.0 - state % 7 for state in states[:-1]]
    elif sequence.request.prompt_logprobs and name in world.finishes:
        assert world.finishes[name].error


def check_world(world: World) -> None:
    for name, sequence in world.sequences.items():
        check_sequence(world, name, sequence)
    slots = world.scheduler.admission.slots
    for slot in slots.slots:
        assert world.engine.values(slot.id) == chain(slot.tokens)[0], f"the cells of slot {slot.id} hold something else"
    assert slots.num_pinned == 0
    assert not world.engine.samplers
    world.runner.close()


@pytest.mark.parametrize("block", range(10))
def test_every_sequence_gets_the_text_of_the_plain_loop(block: int) -> None:
    for seed in range(block * NUM_WORLDS // 10, (block + 1) * NUM_WORLDS // 10):
        world = World(seed)
        try:
            world.run()
            check_world(world)
        except AssertionError as fault:
            raise AssertionError(f"world {seed}: {fault}") from fault


class WatchedWorld(World):
    """Counts the steps in which somebody waits, beside a free slot, for a prefix that another one computes."""

    def planned(self) -> None:
        super().planned()
        admission = self.scheduler.admission
        if len(admission.running) < self.limits.max_running:
            for sequence in admission.queue:
                _, length = admission.prefixes.live(sequence)
                coming = admission.prefixes.in_flight(sequence, admission.running)
                self.seen["single flights"] += coming >= length + self.limits.min_wait


def test_the_worlds_contain_what_they_are_for() -> None:
    """All that can happen to a sequence does happen, often, in the first worlds; and few cancels, which hide faults."""
    seen: Counter[str] = Counter()
    for seed in range(660):
        world = WatchedWorld(seed)
        world.run()
        seen += world.seen
        seen["worlds with preemption"] += world.scheduler.admission.preemption.num_preempted > 0
        seen["cached"] += sum(bool(sequence.num_cached) for sequence in world.sequences.values())
        seen["deadlines"] += sum(f.error is not None and f.error.status == 408 for f in world.finishes.values())
        seen["cancels"] += len(world.absent)
        seen["sequences"] += len(world.sequences)
        seen["spelled by fewer tokens"] += sum(0 < s.num_again < s.request.most_again for s in world.sequences.values())
    kinds = (
        "copies", "evictions", "takeovers", "compactions", "failures", "chunks", "drafts wholly accepted",
        "drafts partly accepted", "drafts not accepted", "stops in drafts", "ends in drafts", "forced beyond drafts",
        "ends of constraints", "single flights", "rows beside people",
        "worlds with preemption", "cached", "deadlines", "cancels", "saves", "restores", "rated chunks",
        "states kept", "healed", "spelled by fewer tokens",
    )  # fmt: skip
    assert min(seen[kind] for kind in kinds) >= 20, seen
    assert seen["states restored"] >= 5, seen
    assert seen["cancels"] < seen["sequences"] / 20, seen
