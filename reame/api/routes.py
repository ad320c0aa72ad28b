"""The endpoints: bytes in, checked by `schema`, answered through the intake.

`/health` and the API's description are open to everyone. All else, metrics too, needs a key when there are keys. Until
the model can answer, the models' list is 503 like the rest, so that probes which look there wait as well.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

import trio
from attrs import frozen
from quart import g, request
from quart_trio.wrappers import TrioResponse as Response

from reame.api.chunks import Chunks, dumps, error_event
from reame.api.limits import limits_of
from reame.api.replies import Head, Reply
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.api.schema_warm import read_warm
from reame.api.sse import HEADERS, EventStream
from reame.api.voice import OpenAIVoice
from reame.api.warm import Warming
from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from quart_trio import QuartTrio

    from reame.api.exchange import Request
    from reame.api.schema import Limits, Wanted
    from reame.api.sse import Lines, Replies
    from reame.api.voice import Voice
    from reame.config import Config
    from reame.core.request import Sampling
    from reame.runtime.intake import Intake
    from reame.runtime.metrics import Metrics
    from reame.runtime.prompts import ServedModel


class Asked(Protocol):
    """A body, checked. `model` "" means any."""

    @property
    def model(self) -> str: ...


T = TypeVar("T")
W = TypeVar("W", bound=Asked)

LARGE_BODY = 1 << 16
"""Bytes above which a body is parsed in a thread: megabytes take long enough to hold up other people's streams."""
MANY_RATED = 1 << 10
"""Probabilities that take some milliseconds to be told: more are put together in a thread."""
_RETRY_S = "5"
_OPENAI = OpenAIVoice()


@frozen
class Routes:
    """The handlers of all endpoints."""

    config: Config
    intake: Intake
    metrics: Metrics
    sampling: Sampling
    parsing: trio.CapacityLimiter
    counting: trio.CapacityLimiter
    """For `/metrics`, which looks at the disk: that may take long."""

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/health", view_func=self.health, methods=["GET"])
        app.add_url_rule("/metrics", view_func=self.show_metrics, methods=["GET"])
        app.add_url_rule("/models", view_func=self.models, methods=["GET"])
        app.add_url_rule("/models/<path:name>", view_func=self.model, methods=["GET"])
        app.add_url_rule("/completions", view_func=self.completions, methods=["POST"])
        app.add_url_rule("/chat/completions", view_func=self.chat, methods=["POST"])
        app.add_url_rule("/warm", view_func=self.warm, methods=["POST"])

    async def health(self) -> Response:
        health = self.intake.health()
        ready = health.status == "ready"
        body = {
            "status": "ok" if ready else health.status,
            "detail": health.detail,
            "model": self.intake.model_id,
            "slots": {"total": health.slots_total, "busy": health.slots_busy, "background": health.slots_background},
            "queue": {"depth": health.queue_depth, "oldest_wait_s": round(health.oldest_wait_s, 3)},
        }
        headers = {"Cache-Control": "no-store"} | ({} if ready else {"Retry-After": _RETRY_S})
        return json_response(body, status=200 if ready else 503, headers=headers)

    async def show_metrics(self) -> Response:
        await trio.to_thread.run_sync(self.metrics.refresh, limiter=self.counting, abandon_on_cancel=True)
        return Response(self.metrics.render(), content_type="text/plain; version=0.0.4; charset=utf-8")

    async def models(self) -> Response:
        self.served()
        return json_response({"object": "list", "data": list(self._model_objects().values())})

    async def model(self, name: str) -> Response:
        self.served()
        models = self._model_objects()
        if name not in models:
            self._check_model(name)
        return json_response(models[name])

    async def completions(self) -> Response:
        return await self._answer(read_completion)

    async def chat(self) -> Response:
        return await self._answer(read_chat)

    async def warm(self) -> Response:
        wanted = await self.wanted(read_warm)
        until = None if wanted.pin_s is None else math.ceil(time.time() + wanted.pin_s)
        opened = self.intake.open(wanted.call, key=g.key, namespace=g.key)
        pin = partial(self.intake.pin, namespace=g.key, era=self.intake.era(g.key))
        if wanted.stream:
            replies = await cast("Request", request).held.enter_async_context(opened)
            warming = Warming(replies, self.head(replies.request_id), pin, until=until)
            return self.event_stream(warming, warming, replies.request_id)
        async with opened as replies:
            warming = Warming(replies, self.head(replies.request_id), pin, until=until)
            async for index, event in warming:
                warming.take(index, event)
        return json_response(warming.whole(), headers={"X-Request-Id": replies.request_id})

    async def _answer(self, read: Callable[[bytes, Limits], Wanted]) -> Response:
        return await self.answer(await self.wanted(read))

    async def answer(self, wanted: Wanted, voice: Voice = _OPENAI) -> Response:
        if wanted.stream:
            return await self._stream(wanted, voice)
        async with self.intake.open(wanted.call, key=g.key, namespace=g.key) as replies:
            reply = Reply(wanted)
            async for index, event in replies:
                reply.take(index, event)
        whole = partial(reply.whole, self.head(replies.request_id), replies.prompt_tokens)
        told = voice.whole(await self.put_together(whole, reply.num_rated))
        return json_response(told, headers={"X-Request-Id": replies.request_id})

    async def put_together(self, work: Callable[[], T], num_rated: int) -> T:
        """Some of an answer with so many probabilities: in a thread when they are many."""
        if num_rated <= MANY_RATED:
            return work()
        return await trio.to_thread.run_sync(work, limiter=self.parsing)

    async def _stream(self, wanted: Wanted, voice: Voice) -> Response:
        held = cast("Request", request).held
        replies = await held.enter_async_context(self.intake.open(wanted.call, key=g.key, namespace=g.key))
        chunks = Chunks(
            wanted,
            self.head(replies.request_id),
            num_choices=replies.num_choices,
            prompt_tokens=replies.prompt_tokens,
        )
        lines = voice.lines(chunks, prompt_tokens=replies.prompt_tokens)
        return self.event_stream(replies, lines, replies.request_id, tell_error=voice.tell_error)

    def event_stream(
        self,
        replies: Replies,
        lines: Lines,
        request_id: str,
        *,
        tell_error: Callable[[RequestError], bytes] = error_event,
    ) -> Response:
        body = EventStream(replies, lines, keep_alive_s=self.config.server.keep_alive_s, tell_error=tell_error)
        return Response(body, headers={**HEADERS, "X-Request-Id": request_id})

    async def wanted(self, read: Callable[[bytes, Limits], W], *, any_model: bool = False) -> W:
        """What the request's body asks for, which this model can do. With `any_model` its name does not matter."""
        if request.mimetype != "application/json":
            raise RequestError("Send the body as JSON, with the header `Content-Type: application/json`.", status=415)
        raw: bytes = await request.get_data(cache=False, as_text=False, parse_form_data=False)
        wanted = await self._read(read, raw)
        if not any_model:
            self._check_model(wanted.model)
        return wanted

    async def _read(self, read: Callable[[bytes, Limits], W], raw: bytes) -> W:
        limits = self.limits()
        if len(raw) <= LARGE_BODY:
            return read(raw, limits)
        return await trio.to_thread.run_sync(read, raw, limits, limiter=self.parsing)

    def limits(self) -> Limits:
        return limits_of(self.config, self.sampling, self.intake.model)

    def _check_model(self, name: str) -> None:
        if name not in ("", self.intake.model_id):
            raise RequestError(
                f"This server does not have that model. It has {self.intake.model_id!r}, which also answers when"
                " `model` is left out.",
                status=404,
                param="model",
                code="model_not_found",
            )

    def served(self) -> ServedModel:
        if not self.intake.is_ready() or self.intake.model is None:
            status = self.intake.status
            raise RequestError(
                f"the server is not ready: {self.intake.detail}",
                status=503,
                code=f"server_{status}",
                retry_after=int(_RETRY_S),
            )
        return self.intake.model

    def _model_objects(self) -> dict[str, dict[str, Any]]:
        """By name: the model that answers, and the one for embeddings if there is one."""
        return {
            model.id: {
                "id": model.id,
                "object": "model",
                "created": self.intake.created,
                "owned_by": "reame",
                "max_model_len": model.context,
            }
            for model in (self.intake.model, self.intake.embeddings)
            if model is not None
        }

    def head(self, request_id: str) -> Head:
        model = self.intake.model
        return Head(
            id=request_id,
            created=int(time.time()),
            model=self.intake.model_id,
            fingerprint="" if model is None else model.fingerprint,
        )


def json_response(body: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(dumps(body), status=status, headers=headers, content_type="application/json")
