"""The way in: is there room, is the model ready, what tokens is this; then the decode loop has it.

Owner of the daemon's status and of the count of open sequences. Bound: `engine.slots + scheduler.queue` sequences; the
next one gets 429 at once. Prompts to be warmed and background work are let in only while less than half of that is
taken.
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

from reame.batch.width import fastest
from reame.core.labels import labels_of
from reame.core.request import Call, Prompt, Request
from reame.errors import RequestError
from reame.runtime.allowance import DailyTokens
from reame.runtime.conclave import Deliberation
from reame.runtime.decode import REPLY_EVENTS, Job
from reame.runtime.labelling import Asking, Labelling, is_rated
from reame.runtime.memory import Pin
from reame.runtime.prompts import Prepared, ServedModel, check_length, check_tokens, num_characters, prepare, seeded
from reame.runtime.replies import Replies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from reame.config import Config
    from reame.constraint.compiler import Compiled
    from reame.core.events import Event
    from reame.runtime.decode import DecodeLoop
    from reame.runtime.embeddings import Embeddings
    from reame.runtime.memory import Memory
    from reame.runtime.metrics import Metrics

Status = Literal["loading", "ready", "stalled", "draining", "failed"]

INLINE_CHARACTERS = 4096
"""A longer text is tokenised in an I/O thread: the event loop may not stand still for more than a millisecond."""

log = logging.getLogger(__name__)


@frozen(kw_only=True)
class Health:
    """A glance at the daemon; `oldest_wait_s` is how long the first in the queue has waited, `slots_background`
    see `Intake.background_width`."""

    status: Status
    detail: str
    slots_total: int
    slots_busy: int
    slots_background: int
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
        self.tokens = DailyTokens()
        self.embeddings: Embeddings | None = None
        self._send, self.jobs = trio.open_memory_channel[Job](self._capacity)
        self._io = trio.CapacityLimiter(2)
        self._compiling = trio.CapacityLimiter(1)
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
        status, detail = self.status, self.detail
        stalled_s = self._loop.stalled_s() if self._loop else 0.0
        if stalled_s > self._config.scheduler.stall_s:
            status, detail = "stalled", f"work waits, and the engine has not finished a step for {stalled_s:.0f} s"
        return Health(
            status=status,
            detail=detail,
            slots_total=self._config.engine.slots,
            slots_busy=len(running),
            slots_background=self.background_width(),
            queue_depth=len(waiting) + self.jobs.statistics().current_buffer_used,
            oldest_wait_s=max((trio.current_time() - s.arrived for s in waiting), default=0.0),
        )

    def background_width(self) -> int:
        """How many requests at once are computed fastest when nobody else is there, by what steps took lately."""
        slots = self._config.engine.slots
        return fastest(self._loop.scheduler.cost.seconds, slots) if self._loop else slots

    @asynccontextmanager
    async def open(self, call: Call, *, key: str, namespace: str) -> AsyncIterator[Replies]:
        """Let a call in. Leaving the block cancels what is unfinished.

        Raises RequestError on entry: 503 not ready, 429 no room, 400 too long for the context.
        """
        namespace = self._own(namespace)
        with self._counted():
            self.tokens.check(key)
            model = self._ready_model()
            num_choices = self._take_room(call)
            num_spare = self._take_spare(call)
        send, receive = trio.open_memory_channel(REPLY_EVENTS * num_choices)
        replies = labelling = None
        try:
            with self._counted():
                prompts = [await self._prepare(model, prompt, call) for prompt in call.prompts]
                grammar = await self._compile(model, call)  # held to the end: the decode thread wants it at once
                requests = self._requests(model, call, prompts, grammar, key=key, namespace=namespace)
                made = self._replies(call, requests, receive, send)
                await self._prepare_archive(namespace)
                made.is_cut = any(prepared.is_cut for prepared in prompts)
                made.labelling = labelling = self._labelling(model, call, grammar, requests, width=num_spare)
                new = await self._recall(call, made)
                on_disk = {prompt: await self._num_on_disk(prompt, namespace) for prompt in {r.prompt for _, r in new}}
                self._hand_over([Job(r, index, made.reply(index, send), on_disk[r.prompt]) for index, r in new])
                if labelling is not None and num_spare:
                    for prompt in {index // call.width for index, _ in new}:
                        labelling.want(prompt)
                if not made.grows:
                    send.close()
                replies = made
            yield replies
        finally:
            send.close()
            receive.close()
            if labelling is not None:
                labelling.close()
            if self._loop is not None:
                self._loop.nudge()
            self._num_open -= num_choices + num_spare
            if replies is not None:
                replies.account(self._metrics, key)
                self.tokens.spend(key, replies.num_tokens)

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

    @property
    def keeps_texts(self) -> bool:
        """What `keep_text` is given is kept."""
        return self._memory is not None and self._memory.keeps_texts

    def keep_text(self, name: str, text: str, *, namespace: str) -> None:
        """Keep it beside the old answers, for whoever asks with the same key."""
        if self._memory is not None:
            self._memory.keep_text(name, text, namespace=self._own(namespace))

    async def text(self, name: str, *, namespace: str) -> str | None:
        return None if self._memory is None else await self._memory.text(name, namespace=self._own(namespace))

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
        """The places taken. What gives way fills half of them at most, so that it never turns others away."""
        number = len(call.prompts) * call.width
        gives_way = call.warm or call.background
        room = max(1, self._capacity // 2) if gives_way else self._capacity
        if number > room:
            half = "half of " if gives_way else ""
            raise RequestError(
                f"{number} {'prompts' if call.warm else 'choices'} in one request; this server takes {room} ({half}"
                "engine.slots + scheduler.queue) at once",
                param="prompt" if call.warm else "best_of" if call.conclave else "n",
            )
        if self._num_open + number > room:
            raise self._full()
        self._num_open += number
        return number

    def _take_spare(self, call: Call) -> int:
        """Places for the forks of the labels, as far as nobody else has them; without any, one fork at a time is asked
        when the answers are there."""
        labels = len(labels_of(call.constraint)) * len(call.prompts) if call.confidence else 0
        room = self._capacity // 2 if call.background else self._capacity
        number = max(0, min(labels, self._config.engine.slots, room - self._num_open))
        self._num_open += number
        return number

    def _labelling(
        self, model: ServedModel, call: Call, grammar: Compiled | None, requests: list[Request], *, width: int
    ) -> Labelling | None:
        """None: it is not wanted, or there are no labels, or too many. Raises RequestError (400) when they are too long
        for the context."""
        if grammar is None or grammar.labels is None or not requests[0].labels:
            return None
        asking = Asking(
            tree=grammar.labels, ends=model.info.eog_tokens, context=model.context, width=max(1, width)
        )  # fmt: skip
        return Labelling(asking, requests[:: call.width], self._hand_over)

    def _replies(
        self,
        call: Call,
        requests: list[Request],
        events: trio.MemoryReceiveChannel[tuple[int, Event]],
        send: trio.MemorySendChannel[tuple[int, Event]],
    ) -> Replies:
        if call.conclave is None:
            return Replies(call, requests, events)
        assert self._loop is not None

        def launch(requests: list[tuple[int, Request]]) -> None:
            self._hand_over([Job(request, index, made.reply(index, send)) for index, request in requests])

        made = Deliberation(call, requests, events, loop=self._loop, launch=launch)
        return made

    async def _recall(self, call: Call, replies: Replies) -> list[tuple[int, Request]]:
        """Give old answers to the requests that have one. For the others, which are kept, comes back what is to be
        computed, with its index."""
        memory, remaining = self._memory, []
        assert memory is not None
        wanted, seed_given = call.answers and not call.warm, call.sampling.seed is not None
        for index, request in replies.asked():
            key = memory.answer_key(request, seed_given=seed_given) if wanted else None
            answer = await memory.answer(key) if key else None
            if answer is not None:
                replies.tell_again(index, answer)
                continue
            if key is not None:
                replies.keep_answer(index, partial(memory.keep_answer, key, namespace=request.namespace))
            remaining += replies.openings(index)
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

    async def _prepare(self, model: ServedModel, prompt: Prompt, call: Call) -> Prepared:
        function = partial(prepare, model, prompt, call)
        if num_characters(prompt) <= INLINE_CHARACTERS:
            return function()
        prepared = await trio.to_thread.run_sync(function, limiter=self._io)
        await trio.lowlevel.checkpoint_if_cancelled()  # the client may have left meanwhile
        return prepared

    async def _compile(self, model: ServedModel, call: Call) -> Compiled | None:
        """What the call's answers must be, or None. Raises RequestError (400) for what cannot be held to."""
        if call.constraint is None or call.warm:
            return None
        assert model.constraints is not None
        grammar = model.constraints.known(call.constraint)
        if grammar is not None:
            return grammar
        try:
            compiled = partial(model.constraints.compile, call.constraint)
            grammar = await trio.to_thread.run_sync(compiled, limiter=self._compiling)
        except RequestError as error:
            error.param = call.constraint_field + (error.param or "")
            raise
        await trio.lowlevel.checkpoint_if_cancelled()
        return grammar

    async def _prepare_archive(self, namespace: str) -> None:
        if self._memory is not None:
            await self._memory.prepare_archive(namespace)

    async def _num_on_disk(self, prompt: tuple[int, ...], namespace: str) -> int:
        """Asked only for what no live cells have."""
        assert self._memory is not None
        assert self._loop is not None
        size = self._memory.block_tokens
        live = self._loop.scheduler.num_live(prompt, namespace) if size else 0
        return await self._memory.num_on_disk(prompt, namespace) if size and len(prompt) - live > size else 0

    def _requests(
        self, model: ServedModel, call: Call, prompts: list[Prepared], grammar: Compiled | None, *, key: str,
        namespace: str,
    ) -> list[Request]:
        name = secrets.token_hex(12)
        default = self._config.sampling.max_tokens or model.context
        limit = 0 if call.warm else default if call.max_tokens is None else call.max_tokens
        timeout = call.timeout or float("inf")
        if not call.background:
            timeout = min(timeout, self._config.scheduler.request_timeout_s)
        forced = grammar.matcher().forced() if grammar and not call.prompt_logprobs else ()
        rates_labels = call.confidence and bool(limit) and is_rated(grammar)
        rates_fields = call.tells_fields and call.logprobs is None
        requests: list[Request] = []
        for number, prepared in enumerate(prompts):
            prompt = prepared.tokens
            check_length(prompt, model.context, call.prompts[number])
            check_tokens(prompt, model.info.vocab_size)
            most = min(limit + prepared.num_healed if limit else 0, model.context - len(prompt))
            for choice in range(call.width):
                requests.append(
                    Request(
                        id=f"{name}-{len(requests)}",
                        prompt=prompt,
                        max_tokens=most,
                        constraint=call.constraint if most else None,
                        forced=forced[: max(0, most - 1)],
                        sampling=seeded(call.sampling, choice),
                        stop=call.stop,
                        logprobs=0 if rates_fields else call.logprobs,
                        labels=rates_labels,
                        key=key,
                        namespace=namespace,
                        background=call.warm or call.background,
                        prompt_logprobs=call.prompt_logprobs,
                        healed=prepared.healed if limit else b"",
                        generation_s=call.generation_s,
                        deadline=trio.current_time() + timeout,
                    )
                )
        return requests
