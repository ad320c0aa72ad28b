"""The way in: is the model ready, is there room, what is remembered of it; then the decode loop has it.

Owner of the daemon's status. `room` counts, `preparing` makes tokens and grammars, `requests` makes requests of them.
"""

from __future__ import annotations

import time
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import evolve

from reame.batch.width import widest
from reame.errors import RequestError
from reame.runtime.allowance import DailyTokens
from reame.runtime.conclave import Deliberation
from reame.runtime.health import Health, Status
from reame.runtime.job import REPLY_EVENTS, HandOver, Job
from reame.runtime.kept import Question
from reame.runtime.labelling import Asking, Labelling
from reame.runtime.pins import Pin
from reame.runtime.preparing import Preparing
from reame.runtime.replies import Replies
from reame.runtime.requests import requests_of
from reame.runtime.room import Room, full

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from reame.config import Config
    from reame.constraint.compiler import Compiled
    from reame.core.events import Event
    from reame.core.request import Call, Request
    from reame.runtime.decode import DecodeLoop
    from reame.runtime.embeddings import Embeddings
    from reame.runtime.memory import Memory
    from reame.runtime.metrics import Metrics
    from reame.runtime.prompts import ServedModel


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
        self.room = Room(config)
        self._preparing = Preparing()
        self.tokens = DailyTokens()
        self.embeddings: Embeddings | None = None
        self._send, self.jobs = trio.open_memory_channel[Job](2 * self.room.capacity)
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
        patience = self.embeddings.patience if self.embeddings else 1
        if stalled_s > self._config.scheduler.stall_s * patience:
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
        """How many requests at once are best computed when nobody else is there, by what steps took lately."""
        slots = self._config.engine.slots
        return widest(self._loop.scheduler.cost.seconds, slots) if self._loop else slots

    @asynccontextmanager
    async def open(self, call: Call, *, key: str, namespace: str) -> AsyncIterator[Replies]:
        """Let a call in. Leaving the block cancels what is unfinished.

        Raises RequestError on entry: 503 not ready, 429 no room, 400 too long for the context.
        """
        namespace, era = self._own(namespace), self.era(namespace)
        hand_over, arrived = partial(self._hand_over, era=era), trio.current_time()
        with self._counted():
            self.tokens.check(key)
            model = self._ready_model()
            num_choices, num_spare = self.room.take(call, key), 0
        send, receive = trio.open_memory_channel(REPLY_EVENTS * num_choices)
        replies = labelling = None
        try:
            with self._counted():
                num_spare = self.room.take_spare(call)
                prompts = [await self._preparing.prompt(model, prompt, call) for prompt in call.prompts]
                grammar = await self._preparing.grammar(model, call)  # held: the decode thread wants it at once
                requests = requests_of(self._config, model, call, prompts, grammar, key=key, namespace=namespace)
                made = self._replies(call, requests, receive, send, hand_over)
                made.is_cut = any(prepared.is_cut for prepared in prompts)
                made.labelling = labelling = self._labelling(model, call, grammar, requests, hand_over, width=num_spare)
                new = await self._recall(call, made, namespace, era=era)
                hand_over([Job(request, index, made.reply(index, send), disk, arrived) for index, request, disk in new])
                if labelling is not None and num_spare:
                    for prompt in {index // call.width for index, _, _ in new}:
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
            self.room.give_back(num_choices, num_spare, key)
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

    def era(self, namespace: str) -> int:
        """To be asked for when work begins that will keep something: see `Memory.era`."""
        return 0 if self._memory is None else self._memory.era(self._own(namespace))

    async def pin(self, tokens: tuple[int, ...], *, namespace: str, until: float, era: int = 0) -> bool:
        """Keep on disk what is computed of these tokens, now or later, until then (Unix time, seconds). False when
        nothing is kept on disk here."""
        if self._memory is None or not self._memory.block_tokens:
            return False
        await self._memory.pin(Pin(tokens, self._own(namespace), until), era=era)
        return True

    @property
    def keeps_texts(self) -> bool:
        """What `keep_text` is given is kept."""
        return self._memory is not None and self._memory.keeps_texts

    def keep_text(self, name: str, text: str, *, namespace: str, era: int = 0) -> None:
        """Keep it beside the old answers, for whoever asks with the same key."""
        if self._memory is not None:
            self._memory.keep_text(name, text, namespace=self._own(namespace), era=era)

    async def text(self, name: str, *, namespace: str) -> str | None:
        return None if self._memory is None else await self._memory.text(name, namespace=self._own(namespace))

    async def drop_text(self, name: str, *, namespace: str) -> bool:
        """Whether there was one of this name, which is no more."""
        return self._memory is not None and await self._memory.drop_text(name, namespace=self._own(namespace))

    def _own(self, namespace: str) -> str:
        """The namespace whose memory is used: with `memory.share` all, there is one for everybody."""
        return "" if self._config.memory.share == "all" else namespace

    def _ready_model(self) -> ServedModel:
        if self.status != "ready" or self.model is None:
            raise RequestError(
                f"the server is not ready: {self.detail}", status=503, code=f"server_{self.status}", retry_after=5
            )
        return self.model

    def _labelling(
        self,
        model: ServedModel,
        call: Call,
        grammar: Compiled | None,
        requests: list[Request],
        hand_over: HandOver,
        *,
        width: int,
    ) -> Labelling | None:
        """None: it is not wanted, or there are no labels, or too many, or no room for them."""
        if grammar is None or grammar.labels is None or not requests[0].labels:
            return None
        asking = Asking(tree=grammar.labels, ends=model.info.eog_tokens, width=max(1, width))
        return Labelling(asking, requests[:: call.width], hand_over)

    def _replies(
        self,
        call: Call,
        requests: list[Request],
        events: trio.MemoryReceiveChannel[tuple[int, Event]],
        send: trio.MemorySendChannel[tuple[int, Event]],
        hand_over: HandOver,
    ) -> Replies:
        if call.conclave is None:
            return Replies(call, requests, events)
        assert self._loop is not None

        def launch(requests: list[tuple[int, Request]]) -> None:
            self._expect_room(len(requests))
            hand_over([Job(request, index, made.reply(index, send)) for index, request in requests])

        made = Deliberation(call, requests, events, loop=self._loop, launch=launch)
        return made

    async def _recall(
        self, call: Call, replies: Replies, namespace: str, *, era: int
    ) -> list[tuple[int, Request, int]]:
        """Give old answers to the requests that have one. For the others, which are kept, comes back what is to be
        computed: its index, and how many tokens of its prompt the disk has."""
        memory, remaining = self._memory, []
        assert memory is not None
        wanted, seed_given = call.answers and not call.warm, call.sampling.seed is not None
        asked = replies.asked()
        keys = [memory.answer_key(request, seed_given=seed_given) if wanted else None for _, request in asked]
        beyond = {prompt: self._may_be_on_disk(prompt, namespace) for prompt in {r.prompt for _, r in asked}}
        questions = [Question(key, r.prompt, beyond[r.prompt]) for key, (_, r) in zip(keys, asked, strict=True)]
        found = await memory.recall(questions, namespace)
        for (index, _), key, remembered in zip(asked, keys, found, strict=True):
            if remembered.answer is not None:
                replies.tell_again(index, remembered.answer)
                continue
            if key is not None:
                replies.keep_answer(index, partial(memory.keep_answer, key, namespace=namespace, era=era))
            remaining += [(*opening, remembered.num_on_disk) for opening in replies.openings(index)]
        return remaining

    def _may_be_on_disk(self, prompt: tuple[int, ...], namespace: str) -> bool:
        """More of it than live cells have."""
        assert self._memory is not None
        assert self._loop is not None
        size = self._memory.block_tokens
        return size > 0 and len(prompt) - self._loop.scheduler.num_live(prompt, namespace) > size

    def _hand_over(self, jobs: list[Job], *, era: int) -> None:
        """To the loop: all of them, or none (429). Those of a call that began in another `era` leave nothing behind."""
        self._expect_room(len(jobs))
        for job in jobs:
            self._send.send_nowait(evolve(job, traceless=self.era(job.request.namespace) != era))

    def _expect_room(self, num_jobs: int) -> None:
        """Jobs whose clients have left lie in the channel until the next step, so it may be full."""
        channel = self._send.statistics()
        if channel.current_buffer_used + num_jobs > channel.max_buffer_size:
            raise full()
