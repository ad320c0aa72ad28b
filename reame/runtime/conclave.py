"""A call whose every prompt is answered by several candidates, of which one is elected: to its client it is a call
with `n` answers to each prompt, the elected one first.

Candidates are ordinary requests: they share the prompt's cells, and wait in the queue when there are more of them than
slots. Their events come through one channel, whose bound is that of as many choices. As soon as an election is decided
its unfinished candidates are stopped, and their cells are free at the next step.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import evolve

from reame.core.events import Delta, Finish, Usage
from reame.core.vote import vote_of
from reame.errors import RequestError
from reame.runtime.candidate import as_candidates, cut_to
from reame.runtime.candidates import Candidates
from reame.runtime.replies import Replies
from reame.runtime.seat import Seat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.core.events import Event
    from reame.core.request import Call, Request
    from reame.runtime.candidate import Candidate
    from reame.runtime.job import Reply
    from reame.runtime.metrics import Metrics

MOST_INLINE = 4096
"""Characters of all answers above which they are compared in a thread."""


class Loop(Protocol):
    """What a conclave needs of the decode loop."""

    def usage(self, request: Request) -> Usage | None:
        """What it took so far; None when the loop does not have it."""
        ...

    def nudge(self) -> None:
        """Somebody left."""
        ...

    def wave(self, size: int) -> int:
        """How many of so many candidates begin."""
        ...


class Launch(Protocol):
    """Hands more requests, with their indices, to the loop. Raises RequestError when there is no room."""

    def __call__(self, requests: list[tuple[int, Request]]) -> None: ...


class Deliberation(Replies):
    """`requests` are plain ones for all candidates, prompt-major, `call.conclave.size` to a prompt. Places reserved for
    them are theirs until the call ends, whether they run or not."""

    def __init__(
        self,
        call: Call,
        requests: Sequence[Request],
        events: trio.MemoryReceiveChannel[tuple[int, Event]],
        *,
        loop: Loop,
        launch: Launch,
    ) -> None:
        assert call.conclave is not None
        size, self._num_shown = call.conclave.size, requests[0].logprobs
        requests = as_candidates(call, requests)
        shown = [request for index, request in enumerate(requests) if index % size < call.n]
        super().__init__(call, shown, events)
        self._call = call
        self._size = size
        self._loop = loop
        self._started = trio.current_time()
        kind = vote_of(call.conclave, call.constraint)
        starts = range(0, len(requests), size)
        wave = loop.wave(size)
        self._tables = [Candidates(requests[start : start + size], call.conclave, kind, wave=wave) for start in starts]
        self._seats: dict[int, Seat] = {}
        self._opened: set[int] = set()
        self._launch = launch
        self.grows = call.conclave.margin is not None or any(table.holds for table in self._tables)

    def asked(self) -> list[tuple[int, Request]]:
        """What each answer is filed under: the first candidate's request, as the client meant it, with the election
        and its place in that."""
        assert self._call.conclave is not None
        named = []
        for index in range(self.num_choices):
            number, place = divmod(index, self._n)
            first = evolve(self._requests[number * self._n], logprobs=self._num_shown)
            named.append((index, evolve(first, conclave=evolve(self._call.conclave, place=place, shown=self._n))))
        return named

    def openings(self, index: int) -> list[tuple[int, Request]]:
        """The candidates of the answer's prompt that are to run from the beginning; nobody when they do already."""
        prompt = index // self._n
        if prompt in self._opened:
            return []
        self._opened.add(prompt)
        table, first = self._tables[prompt], prompt * self._size
        return [(first + number, table.candidates[number].request) for number in table.running]

    def reply(self, index: int, send: trio.MemorySendChannel[tuple[int, Event]]) -> Reply:
        self._seats[index] = Seat(send.clone())
        return self._seats[index]

    async def __anext__(self) -> tuple[int, Event]:
        with trio.move_on_at(self._patience_ends):
            while not self._told:
                if len(self._finishes) == self.num_choices:
                    raise StopAsyncIteration
                over = next((n for n, t in enumerate(self._tables) if t.is_over and not self._is_told(n)), None)
                if over is not None:
                    await self._elect(over)
                else:
                    await self._hear()
            return self._told.popleft()
        return self._hangs()

    def ready(self) -> tuple[int, Event] | None:
        """Elections are left to `__anext__`, as they may take a while."""
        if not self._told:
            self._hear_all()
        return self._told.popleft() if self._told else None

    @property
    def num_tokens(self) -> int:
        """Also of candidates whose election nobody waited for."""
        return max(super().num_tokens, self.prompt_tokens + sum(table.num_spent for table in self._tables))

    def account(self, metrics: Metrics, key: str) -> None:
        super().account(metrics, key)
        for table in self._tables:
            for fate, number in table.fates.items():
                metrics.candidates.labels(fate).inc(number)

    async def _hear(self) -> None:
        """Wait for news. Whose channel was closed without an end was cut off: it was full."""
        if self._hear_all() or self._fail_lost():
            return
        with suppress(trio.EndOfChannel):
            self._take(*await self._events.receive())
        self._hear_all()

    def _hear_all(self) -> bool:
        """Whatever has come by now, then stop those who are not needed any more. False: nothing had come."""
        num_heard = 0
        with suppress(trio.WouldBlock, trio.EndOfChannel):
            while True:
                self._take(*self._events.receive_nowait())
                num_heard += 1
        for number, table in enumerate(self._tables):
            if table.is_over and not self._is_told(number):
                self._stop_rest(number)
        return num_heard > 0

    def _take(self, index: int, event: Event) -> None:
        number, candidate = divmod(index, self._size)
        table = self._tables[number]
        if candidate not in table.running:
            return
        if isinstance(event, Delta) and event.prompt_logprobs:
            rated = Delta(prompt_logprobs=event.prompt_logprobs)
            self._told += [self._noted(choice, rated) for choice in self._choices(number)]
        if called := table.take(candidate, event):
            self._send_for(number, called)
        if isinstance(event, Finish) and not table.is_over:
            self._told.append((self._choices(number)[0], Delta(progress=table.progress)))

    def _send_for(self, number: int, called: list[tuple[int, Request]]) -> None:
        try:
            self._launch([(number * self._size + candidate, request) for candidate, request in called])
        except RequestError as error:
            for candidate, _ in called:
                self._fail(number, candidate, error)

    def _fail(self, number: int, candidate: int, error: RequestError) -> None:
        if called := self._tables[number].fail(candidate, _failed(error)):
            self._send_for(number, called)

    def _stop_rest(self, number: int) -> None:
        table = self._tables[number]
        for candidate in table.running:
            table.stop(candidate, self._loop.usage(table.candidates[candidate].request))
            self._seats[number * self._size + candidate].vacate()
            self._loop.nudge()
        table.dismiss()

    def _fail_lost(self) -> bool:
        error = RequestError("the client read too slowly and was cut off", status=408, code="slow_client")
        lost = [index for index, seat in self._seats.items() if seat.is_closed]
        lost = [index for index in lost if index % self._size in self._tables[index // self._size].running]
        for index in lost:
            self._fail(*divmod(index, self._size), error)
        return bool(lost)

    async def _elect(self, number: int) -> None:
        self._stop_rest(number)
        table = self._tables[number]
        if table.num_characters > MOST_INLINE:
            outcome = await trio.to_thread.run_sync(table.outcome)
        else:
            outcome = table.outcome()
        shown = table.shown(outcome, self._n)
        ends = table.finishes(outcome, shown, ms=1e3 * (trio.current_time() - self._started))
        for index in self._choices(number):
            if table.has_failures:
                self._keepers.pop(index, None)
            finish = await self._with_labels(number, ends[index % self._n])
            self._tell(index, shown[index % self._n], finish)

    def _tell(self, index: int, candidate: Candidate, finish: Finish) -> None:
        if not finish.error and (candidate.text or candidate.tokens):
            logprobs = cut_to(candidate.tokens, self._num_shown)
            self._told.append(self._noted(index, Delta(text=candidate.text, logprobs=logprobs)))
        self._told.append(self._noted(index, finish))

    def _choices(self, number: int) -> list[int]:
        """The answers to a prompt that are still to be told."""
        first = number * self._n
        return [index for index in range(first, first + self._n) if index not in self._finishes]

    def _is_told(self, number: int) -> bool:
        return not self._choices(number)


def _failed(error: RequestError) -> Finish:
    return Finish(reason=None, usage=Usage(prompt_tokens=0, cached_tokens=0, completion_tokens=0), error=error)
