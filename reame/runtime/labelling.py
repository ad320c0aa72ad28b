"""How probable every label is after a prompt: the forks of the labels' tree are asked, as ordinary requests.

Each begins with the tokens that lead to its fork, and draws one: the rivals of that one, which are all that may come
there, have the probabilities. All share the prompt's cells, so a fork costs a row for each of these tokens (the first
one: a row), and the rows of several are in one step. `width` of them are in the loop at once; the others follow when
these are done.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio
from attrs import define, evolve, field, frozen

from reame.core.events import Delta, Event
from reame.core.labels import MOST_RATED
from reame.core.request import Sampling
from reame.errors import RequestError
from reame.runtime.job import HandOver, Job

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from reame.constraint.compiler import Compiled
    from reame.core.events import TokenLogprob
    from reame.core.labels import LabelChance, LabelTree
    from reame.core.request import Call, Request


_EVENTS = 4
"""Of one fork, at most: what is forced, what is drawn, the end."""


@frozen(kw_only=True)
class Asking:
    """What there is to ask. `ends` are the tokens that end a generation."""

    tree: LabelTree
    ends: Collection[int]
    width: int


@define
class _Prompt:
    """What is known after one prompt: the odds at each fork."""

    request: Request
    odds: list[dict[int, float] | None]
    is_asked: bool = False
    error: RequestError | None = None
    chances: tuple[LabelChance, ...] = ()


@define
class _Fork:
    prompt: int
    number: int
    path: tuple[int, ...]
    told: list[TokenLogprob] = field(factory=list)


def is_rated(call: Call, grammar: Compiled | None, longest: int, context: int) -> bool:
    """Every label's probability is told after each prompt: it is wanted, there are not too many of them, and there is
    room behind the `longest` prompt. Raises RequestError when there is none and they were asked for by name."""
    if not call.confidence or grammar is None or grammar.labels is None or len(grammar.labels) > MOST_RATED:
        return False
    depth = grammar.labels.depth
    fits = longest + depth <= context
    if not fits and call.confidence_named:
        raise RequestError(
            f"prompt is too long: {longest} tokens and a label up to {depth}, this server's context is {context}"
            " tokens; shorten the prompt, leave reame.confidence out or raise engine.context",
            param="reame.confidence",
            code="context_length_exceeded",
        )
    return fits


class Labelling:
    """Of one call. `close` when its client has left: then the loop ends what is left of it."""

    def __init__(self, asking: Asking, requests: Sequence[Request], hand_over: HandOver) -> None:
        """`requests`: one for each prompt, with room for the labels behind it. `hand_over` gives jobs to the loop;
        RequestError when there is no room."""
        self._asking = asking
        self._hand_over = hand_over
        self._places = asking.tree.forks()
        self._prompts = [_Prompt(request, [None] * len(self._places)) for request in requests]
        self._waiting: deque[_Fork] = deque()
        self._running: dict[int, _Fork] = {}
        self._num_begun = 0
        self._send, self._events = trio.open_memory_channel[tuple[int, Event]](_EVENTS * asking.width)

    def want(self, prompt: int) -> None:
        """Ask for a prompt, once. Does not wait."""
        wanted = self._prompts[prompt]
        if not wanted.is_asked:
            wanted.is_asked = True
            paths = map(self._asking.tree.path, self._places)
            self._waiting += (_Fork(prompt, number, path) for number, path in enumerate(paths))
            self._begin()

    async def of(self, prompt: int) -> tuple[LabelChance, ...]:
        """The likeliest first. Raises RequestError when it cannot be had. Loses nothing when it is cancelled."""
        self.want(prompt)
        wanted = self._prompts[prompt]
        while wanted.error is None and None in wanted.odds:
            self._take(*await self._events.receive())
        if wanted.error is not None:
            raise wanted.error
        if not wanted.chances:
            odds = [each for each in wanted.odds if each is not None]
            wanted.chances = self._asking.tree.chances(odds, self._asking.ends)
        return wanted.chances

    def close(self) -> None:
        self._send.close()
        self._events.close()

    def _begin(self) -> None:
        while self._waiting and len(self._running) < self._asking.width:
            fork = self._waiting.popleft()
            if self._prompts[fork.prompt].error is not None:
                continue
            try:
                self._hand_over([Job(self._request(fork), self._num_begun, self._send.clone())])
            except RequestError as error:
                self._prompts[fork.prompt].error = error
            else:
                self._running[self._num_begun] = fork
            self._num_begun += 1

    def _request(self, fork: _Fork) -> Request:
        """Greedy, and never the end: of that one no probability is told."""
        asking, place = self._asking, self._places[fork.number]
        ends = tuple(asking.ends) if asking.tree.may_end(place) else ()
        request = self._prompts[fork.prompt].request
        return evolve(
            request,
            id=f"{request.id}-label-{fork.number}",
            max_tokens=len(fork.path) + 1,
            sampling=Sampling(temperature=0, seed=0, logit_bias=tuple((token, -100.0) for token in ends)),
            stop=(),
            logprobs=len(asking.tree.ways(place)) + len(ends),
            forced=fork.path,
            prompt_logprobs=False,
            passing=True,
        )

    def _take(self, index: int, event: Event) -> None:
        fork = self._running[index]
        if isinstance(event, Delta):
            fork.told += event.logprobs
            return
        del self._running[index]
        wanted = self._prompts[fork.prompt]
        if event.error is not None:
            wanted.error = event.error
        else:
            drawn = fork.told[len(fork.path)]
            wanted.odds[fork.number] = {token: logprob for token, _, logprob in drawn.top}
        self._begin()
