"""The way out: the events of all sequences of a call, as they come, and the account of it at the end."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from reame.core.events import Delta, Event, Finish, Timings, Usage
from reame.errors import RequestError
from reame.memory.answer_format import Answer
from reame.runtime.logs import event as log_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from reame.core.request import Call, Request
    from reame.runtime.job import Reply
    from reame.runtime.labelling import Labelling
    from reame.runtime.metrics import Metrics

LATE_S = 30.0
"""Seconds after a request's deadline in which the scheduler must have ended it, which it does after each step."""

log = logging.getLogger("reame.requests")


class Replies:
    """An iterator of (choice, event); each choice ends with exactly one Finish, the iterator after the last of them.

    Choices are numbered prompt-major. `cached_tokens` of a Finish are the choice's own.
    """

    grows = False
    """More requests may follow those that there are at the beginning."""

    def __init__(
        self, call: Call, requests: list[Request], events: trio.MemoryReceiveChannel[tuple[int, Event]]
    ) -> None:
        self.request_id = requests[0].id.rsplit("-", 1)[0]
        self.num_choices = len(requests)
        self.prompts = tuple(request.prompt for request in requests[:: call.n])
        self.prompt_tokens = sum(map(len, self.prompts))
        self.is_cut = False
        """Some of what was to stand around a gap did not fit into the context."""
        self._requests = requests
        self._n = call.n
        self._max_tokens = call.max_tokens
        self._events = events
        self._patience_ends = max(request.deadline for request in requests) + LATE_S
        self._told: deque[tuple[int, Event]] = deque()
        """What comes before anything else from the channel."""
        self._held: tuple[int, Finish] | None = None
        """An end that waits for the labels' probabilities."""
        self.labelling: Labelling | None = None
        """When every label's probability is wanted."""
        self._finishes: dict[int, Finish] = {}
        self._num_deltas = 0
        self._keepers: dict[int, tuple[Callable[[Answer], None], list[Delta]]] = {}

    def asked(self) -> list[tuple[int, Request]]:
        """Index and name of each answer: what an old one is looked up by."""
        return list(enumerate(self._requests))

    def openings(self, index: int) -> list[tuple[int, Request]]:
        """What is to be computed for an answer, with the indices of its events in the channel."""
        return [(index, self._requests[index])]

    def reply(self, index: int, send: trio.MemorySendChannel[tuple[int, Event]]) -> Reply:
        """Where the events of `index` go, as long as they are wanted."""
        return send.clone()

    def tell_again(self, index: int, answer: Answer) -> None:
        """An old answer instead of a new one."""
        self._told += [self._noted(index, event) for event in told_again(answer)]

    def keep_answer(self, index: int, keep: Callable[[Answer], None]) -> None:
        """Gather the answer of a choice, and pass it on when it has come to its own end."""
        self._keepers[index] = keep, []

    def __aiter__(self) -> Replies:
        return self

    async def __anext__(self) -> tuple[int, Event]:
        if self._told:
            return self._told.popleft()
        if len(self._finishes) == self.num_choices:
            raise StopAsyncIteration
        with trio.move_on_at(self._patience_ends):
            if self._held is not None:
                return await self._end_held()
            async for index, event in self._events:
                if isinstance(event, Finish) and self.labelling is not None:
                    self._held = index, event
                    return await self._end_held()
                return self._noted(index, event)
            return self._cut_off("the client read too slowly and was cut off", "slow_client")
        return self._hangs()

    def ready(self) -> tuple[int, Event] | None:
        """The next event if it is there already; None does not mean the end."""
        if self._told:
            return self._told.popleft()
        if self.labelling is not None:
            return None
        try:
            return self._noted(*self._events.receive_nowait())
        except (trio.WouldBlock, trio.EndOfChannel):
            return None

    async def _end_held(self) -> tuple[int, Event]:
        assert self._held is not None
        index, finish = self._held
        told = await self._with_labels(index // self._n, finish)
        self._held = None
        return self._noted(index, told)

    async def _with_labels(self, prompt: int, finish: Finish) -> Finish:
        """The end of an answer to a prompt, with the labels' probabilities if they are wanted."""
        if self.labelling is None or finish.error:
            return finish
        try:
            return evolve(finish, labels=await self.labelling.of(prompt))
        except RequestError as error:
            return evolve(finish, reason=None, error=error)

    def _noted(self, index: int, event: Event) -> tuple[int, Event]:
        if isinstance(event, Finish):
            self._finishes[index] = event
        else:
            self._num_deltas += 1
        if index in self._keepers:
            self._gather(index, event)
        return index, event

    def _gather(self, index: int, event: Event) -> None:
        keep, deltas = self._keepers[index]
        if isinstance(event, Delta):
            deltas.append(event)
        elif event.reason == "stop" or (event.reason == "length" and self._is_asked_length(event)):
            told = Answer(deltas=tuple(deltas), reason=event.reason, usage=event.usage, verdict=event.verdict)
            keep(evolve(told, labels=event.labels, stop=event.stop))

    def _is_asked_length(self, finish: Finish) -> bool:
        """It ended where the client wanted, not where the server's limits cut it."""
        return self._max_tokens is not None and finish.usage.completion_tokens - finish.num_again >= self._max_tokens

    def _hangs(self) -> tuple[int, Event]:
        return self._cut_off("the engine hangs, and the request's time is up", "request_timeout")

    def _cut_off(self, why: str, code: str) -> tuple[int, Event]:
        """Without a Finish: the decode loop let go of the channel, or does not come to end what takes too long."""
        self._held = None
        index = next(i for i in range(self.num_choices) if i not in self._finishes)
        error = RequestError(why, status=408, code=code)
        usage = Usage(prompt_tokens=len(self._requests[index].prompt), cached_tokens=0, completion_tokens=0)
        self._finishes[index] = Finish(reason=None, usage=usage, error=error)
        return index, self._finishes[index]

    @property
    def num_tokens(self) -> int:
        """Of the prompts and of what was generated; while a choice is unfinished, the pieces that came stand for it."""
        whole = len(self._finishes) == self.num_choices
        generated = sum(finish.usage.completion_tokens for finish in self._finishes.values())
        return self.prompt_tokens + (generated if whole else max(generated, self._num_deltas))

    def _num_cached(self) -> int:
        """Tokens of the prompts that were not computed, as far as that is known: of each prompt whose choices have all
        ended, of the choice which had the least."""
        of_prompts: dict[int, list[int]] = {}
        for index, finish in self._finishes.items():
            of_prompts.setdefault(index // self._n, []).append(finish.usage.cached_tokens)
        return sum(min(cached) for cached in of_prompts.values() if len(cached) == self._n)

    def account(self, metrics: Metrics, key: str) -> None:
        """Count the call and write its one log line; neither prompts nor answers are in it."""
        finishes = list(self._finishes.values())
        errors = [finish.error for finish in finishes if finish.error]
        whole = len(finishes) == self.num_choices
        outcome = (errors[0].code or "error") if errors else "ok" if whole else "cancelled"
        metrics.requests.labels(outcome).inc()
        metrics.prompt_tokens.inc(self.prompt_tokens)
        cached = self._num_cached()
        metrics.cached_tokens.inc(cached)
        computed = [finish for finish in finishes if not finish.stored]
        timings = computed[0].timings if computed else Timings()
        if computed and computed[0].usage.completion_tokens:
            metrics.first_token_seconds.observe((timings.queued_ms + timings.prefill_ms) / 1e3)
        tokens = sum(finish.usage.completion_tokens for finish in finishes)
        longest = max((finish.timings.decode_ms for finish in finishes), default=0.0)
        log_event(
            log, "request", id=self.request_id, key=key or None, outcome=outcome, choices=self.num_choices,
            prompt=self.prompt_tokens, cached=cached, tokens=tokens, queued_ms=round(timings.queued_ms),
            first_ms=round(timings.prefill_ms), decode_ms=round(longest),
            tok_s=round(1e3 * tokens / longest, 1) if longest else None,
        )  # fmt: skip



MOST_TOLD = 500
"""Events of an old answer: fewer than a reply channel holds."""


def told_again(answer: Answer) -> Iterator[Event]:
    """The events of an old answer: the same text, tokens and end. Nothing was computed, so all its prompt is cached."""
    size = -(-len(answer.deltas) // MOST_TOLD) or 1
    for first in range(0, len(answer.deltas), size):
        part = answer.deltas[first : first + size]
        yield Delta(
            text="".join(delta.text for delta in part),
            logprobs=tuple(each for delta in part for each in delta.logprobs),
        )
    usage = Usage(
        prompt_tokens=answer.usage.prompt_tokens,
        cached_tokens=answer.usage.prompt_tokens,
        completion_tokens=answer.usage.completion_tokens,
    )
    yield Finish(
        reason=answer.reason, usage=usage, stored=True, verdict=answer.verdict, labels=answer.labels, stop=answer.stop
    )
