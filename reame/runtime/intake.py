"""The way in: is there room, is the model ready, what tokens is this; then the decode loop has it.

Owner of the daemon's status and of the count of open sequences. Bound: `engine.slots + scheduler.queue` sequences; the
next one gets 429 at once. Prompts to be warmed are let in only while less than half of that is taken.
"""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

import trio
from attrs import frozen

from reame.core.request import Call, Prompt, Request
from reame.errors import RequestError
from reame.runtime.decode import REPLY_EVENTS, Job
from reame.runtime.memory import Pin
from reame.runtime.prompts import ServedModel, check_length, check_tokens, seeded, tokenise
from reame.runtime.replies import Replies, told_again

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from reame.config import Config
    from reame.core.events import Event
    from reame.runtime.decode import DecodeLoop
    from reame.runtime.memory import Memory
    from reame.runtime.metrics import Metrics

Status = Literal["loading", "ready", "draining", "failed"]

INLINE_CHARACTERS = 4096
"""A longer text is tokenised in an I/O thread: the event loop may not stand still for more than a millisecond."""

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class Health:
    """A glance at the daemon; `oldest_wait_s` is how long the first in the queue has waited."""

    status: Status
    detail: str
    slots_total: int
    slots_busy: int
    queue_depth: int
    oldest_wait_s: float


class Intake:
    """See the module. `loading` until `opened` is called."""

    def __init__(self, config: Config, model_id: str, metrics: Metrics) -> None:
        self.status: Status = "loading"
        self.detail = f"loading {model_id}"
        self.model_id = model_id
        self.created = int(time.time())
        self.model: ServedModel | None = None
        self._config = config
        self._metrics = metrics
        self._loop: DecodeLoop | None = None
        self._memory: Memory | None = None
        self._capacity = config.engine.slots + config.scheduler.queue
        self._num_open = 0
        self._send, self.jobs = trio.open_memory_channel[Job](self._capacity)
        self._io = trio.CapacityLimiter(2)
        self._ready = trio.Event()

    def opened(self, model: ServedModel, loop: DecodeLoop, memory: Memory) -> None:
        """The loop runs and can answer."""
        self.model, self._loop, self._memory = model, loop, memory
        self.status, self.detail = "ready", f"serving {model.id}"
        self._ready.set()

    def drain(self) -> None:
        """No more requests; those inside may finish."""
        self.status, self.detail = "draining", "stopping: finishing what runs"

    def close(self) -> None:
        """Nobody will ask any more: the decode loop ends when it has nothing left."""
        self._send.close()

    def is_ready(self) -> bool:
        return self.status == "ready"

    async def wait_ready(self) -> None:
        """Until the first call can be let in; for ever when the model does not load (then the daemon ends)."""
        await self._ready.wait()

    def health(self) -> Health:
        running, waiting = (self._loop.scheduler.running, self._loop.scheduler.waiting()) if self._loop else ([], [])
        return Health(
            status=self.status,
            detail=self.detail,
            slots_total=self._config.engine.slots,
            slots_busy=len(running),
            queue_depth=len(waiting) + self.jobs.statistics().current_buffer_used,
            oldest_wait_s=max((trio.current_time() - s.arrived for s in waiting), default=0.0),
        )

    @asynccontextmanager
    async def open(self, call: Call, *, key: str, namespace: str) -> AsyncIterator[Replies]:
        """Let a call in. Leaving the block cancels what is unfinished.

        Raises RequestError on entry: 503 not ready, 429 no room, 400 too long for the context.
        """
        namespace = self._own(namespace)
        with self._counted():
            model = self._ready_model()
            num_choices = self._take_room(call)
        send, receive = trio.open_memory_channel(REPLY_EVENTS * num_choices)
        replies = None
        try:
            with send, self._counted():
                prompts = [await self._tokenise(model, prompt) for prompt in call.prompts]
                requests = self._requests(model, call, prompts, key=key, namespace=namespace)
                made = Replies(call, requests, receive)
                new = await self._recall(call, requests, made, send)
                on_disk = {prompt: await self._num_on_disk(prompt, namespace) for prompt in {r.prompt for _, r in new}}
                self._hand_over([Job(r, index, send.clone(), on_disk[r.prompt]) for index, r in new])
                replies = made
            yield replies
        finally:
            receive.close()
            if self._loop is not None:
                self._loop.nudge()
            self._num_open -= num_choices
            if replies is not None:
                replies.account(self._metrics, key)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        """Who is turned away on entry is counted, by the reason."""
        try:
            yield
        except RequestError as error:
            self._metrics.requests.labels("refused" if error.status == 429 else error.code or "invalid").inc()
            raise

    async def pin(self, tokens: tuple[int, ...], *, namespace: str, until: float) -> bool:
        """Keep on disk what is computed of these tokens, now or later, until then (Unix time, seconds). False when
        nothing is kept on disk here."""
        if self._memory is None or not self._memory.block_tokens:
            return False
        await self._memory.pin(Pin(tokens, self._own(namespace), until))
        return True

    def _own(self, namespace: str) -> str:
        """The namespace whose memory is used: with `memory.share` all, there is one for everybody."""
        return "" if self._config.memory.share == "all" else namespace

    def _ready_model(self) -> ServedModel:
        if self.status != "ready" or self.model is None:
            raise RequestError(
                f"the server is not ready: {self.detail}", status=503, code=f"server_{self.status}", retry_after=5
            )
        return self.model

    def _take_room(self, call: Call) -> int:
        """The places taken. What is only warmed fills half of them at most, so that it never turns others away."""
        number = len(call.prompts) * call.n
        room = max(1, self._capacity // 2) if call.warm else self._capacity
        if number > room:
            half = "half of " if call.warm else ""
            raise RequestError(
                f"{number} {'prompts' if call.warm else 'choices'} in one request; this server takes {room} ({half}"
                "engine.slots + scheduler.queue) at once",
                param="prompt" if call.warm else "n",
            )
        if self._num_open + number > room:
            raise self._full()
        self._num_open += number
        return number

    async def _recall(
        self, call: Call, requests: list[Request], replies: Replies, reply: trio.MemorySendChannel[tuple[int, Event]]
    ) -> list[tuple[int, Request]]:
        """Give old answers to the requests that have one. The others, with their indices, remain to be computed; what
        comes of them is kept."""
        memory, remaining = self._memory, []
        assert memory is not None
        wanted, seed_given = call.answers and not call.warm, call.sampling.seed is not None
        for index, request in enumerate(requests):
            key = memory.answer_key(request, seed_given=seed_given) if wanted else None
            answer = await memory.answer(key) if key else None
            if answer is not None:
                for event in told_again(answer):
                    reply.send_nowait((index, event))
                continue
            if key is not None:
                replies.keep_answer(index, partial(memory.keep_answer, key, namespace=request.namespace))
            remaining.append((index, request))
        return remaining

    def _hand_over(self, jobs: list[Job]) -> None:
        """To the loop. Jobs whose clients have left lie in the channel until the next step, so it may be full."""
        try:
            for job in jobs:
                self._send.send_nowait(job)
        except trio.WouldBlock:
            raise self._full() from None

    def _full(self) -> RequestError:
        return RequestError("the queue is full; try again in a moment", status=429, code="queue_full", retry_after=2)

    async def _tokenise(self, model: ServedModel, prompt: Prompt) -> tuple[int, ...]:
        if isinstance(prompt, tuple):
            return prompt
        size = len(prompt) if isinstance(prompt, str) else sum(len(str(m.get("content"))) for m in prompt.messages)
        function = partial(tokenise, model, prompt)
        if size <= INLINE_CHARACTERS:
            return function()
        tokens = await trio.to_thread.run_sync(function, limiter=self._io)
        await trio.lowlevel.checkpoint_if_cancelled()  # the client may have left meanwhile
        return tokens

    async def _num_on_disk(self, prompt: tuple[int, ...], namespace: str) -> int:
        """Asked only for what no live cells have."""
        assert self._memory is not None
        assert self._loop is not None
        size = self._memory.block_tokens
        live = self._loop.scheduler.num_live(prompt, namespace) if size else 0
        return await self._memory.num_on_disk(prompt, namespace) if size and len(prompt) - live > size else 0

    def _requests(
        self, model: ServedModel, call: Call, prompts: list[tuple[int, ...]], *, key: str, namespace: str
    ) -> list[Request]:
        name = secrets.token_hex(12)
        limit = 0 if call.warm else call.max_tokens or self._config.sampling.max_tokens or model.context
        timeout = min(call.timeout or float("inf"), self._config.scheduler.request_timeout_s)
        requests: list[Request] = []
        for number, prompt in enumerate(prompts):
            check_length(prompt, model.context, call.prompts[number])
            check_tokens(prompt, model.info.vocab_size)
            for choice in range(call.n):
                requests.append(
                    Request(
                        id=f"{name}-{len(requests)}",
                        prompt=prompt,
                        max_tokens=min(limit, model.context - len(prompt)),
                        sampling=seeded(call.sampling, choice),
                        stop=call.stop,
                        logprobs=call.logprobs,
                        key=key,
                        namespace=namespace,
                        background=call.warm,
                        deadline=trio.current_time() + timeout,
                    )
                )
        return requests
