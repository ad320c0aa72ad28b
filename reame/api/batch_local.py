"""The records of a batch, answered in this process: read and checked as the endpoints do it, computed as background."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import trio
from attrs import evolve, field, frozen

from reame.api.limits import limits_of
from reame.api.replies import Head, Reply
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.batch.line import CHAT, canonical
from reame.batch.result import Outcome, refusal
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.api.schema import Wanted
    from reame.batch.line import Record
    from reame.config import Config
    from reame.core.request import Sampling
    from reame.runtime.intake import Intake

TRIES = 3
"""Of a record whose step failed in llama.cpp: then that is its result."""
PAUSE_S = 2
"""Before it is asked again for room, when the server does not say how long."""


@frozen
class LocalSolver:
    """See `reame.runtime.batch_run.Solver`. `key` is the name of the API key that the batch belongs to; `sampling`
    what a record gets that does not say otherwise."""

    config: Config
    intake: Intake
    sampling: Sampling
    key: str = ""
    _reading: trio.CapacityLimiter = field(factory=lambda: trio.CapacityLimiter(1), init=False)

    def width(self) -> int:
        return self.intake.background_width()

    def most(self) -> int:
        return self.config.engine.slots

    async def solve(self, record: Record) -> Outcome:
        num_left = TRIES
        while True:
            try:
                # In a thread: megabytes take long enough to hold up other people's streams.
                return await self._answer(await trio.to_thread.run_sync(self._read, record, limiter=self._reading))
            except RequestError as error:
                num_left -= error.status == 500
                if error.status not in (429, 500, 503) or not num_left:
                    return refusal(error)
                await trio.sleep(error.retry_after or PAUSE_S)

    def _read(self, record: Record) -> Wanted:
        limits = limits_of(self.config, self.sampling, self.intake.model)
        wanted = (read_chat if record.url == CHAT else read_completion)(canonical(record.body), limits)
        if wanted.model not in ("", self.intake.model_id):
            raise RequestError(
                f"this is not the model that is served, {self.intake.model_id!r}: name that, or leave `model` out",
                status=404,
                param="model",
                code="model_not_found",
            )
        return wanted

    async def _answer(self, wanted: Wanted) -> Outcome:
        call = evolve(wanted.call, background=True)
        async with self.intake.open(call, key=self.key, namespace=self.key) as replies:
            reply = Reply(wanted)
            async for index, event in replies:
                reply.take(index, event)
            model = self.intake.model
            head = Head(
                id=replies.request_id,
                created=int(time.time()),
                model=self.intake.model_id,
                fingerprint="" if model is None else model.fingerprint,
            )
            body = reply.whole(head, replies.prompt_tokens)
        return Outcome(status=200, request_id=replies.request_id, body=body)
