"""The endpoints that editors know from llama-server: /completion, /infill, /tokenize, /detokenize."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import trio
from attrs import frozen
from quart import g, request

from reame.api.native import NativeAnswer, NativeHead
from reame.api.routes import LARGE_BODY, json_response
from reame.api.schema_native import read_infill, read_native, read_text, read_tokens

if TYPE_CHECKING:
    from quart_trio import QuartTrio
    from quart_trio.wrappers import TrioResponse as Response

    from reame.api.exchange import Request
    from reame.api.routes import Routes
    from reame.api.schema_native import NativeWanted, TextWanted
    from reame.runtime.prompts import ServedModel


class Begun(Protocol):
    """A call that was let in."""

    num_choices: int
    is_cut: bool


@frozen
class Editors:
    """Beside OpenAI's routes, on the same intake."""

    routes: Routes

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/completion", view_func=self.completion, methods=["POST"])
        app.add_url_rule("/infill", view_func=self.infill, methods=["POST"])
        app.add_url_rule("/tokenize", view_func=self.tokenize, methods=["POST"])
        app.add_url_rule("/detokenize", view_func=self.detokenize, methods=["POST"])

    async def completion(self) -> Response:
        return await self._answer(await self.routes.wanted(read_native, any_model=True))

    async def infill(self) -> Response:
        return await self._answer(await self.routes.wanted(read_infill, any_model=True))

    async def tokenize(self) -> Response:
        wanted = await self.routes.wanted(read_text, any_model=True)
        cut = partial(_cut_into_tokens, wanted, self.routes.served())
        return json_response(await self._run(cut, len(wanted.text)))

    async def detokenize(self) -> Response:
        wanted = await self.routes.wanted(read_tokens, any_model=True)
        join = partial(_join_tokens, wanted, self.routes.served())
        return json_response(await self._run(join, len(wanted.tokens)))

    async def _run(self, work: partial[dict[str, Any]], size: int) -> dict[str, Any]:
        if size <= LARGE_BODY >> 4:
            return work()
        return await trio.to_thread.run_sync(work, limiter=self.routes.parsing)

    async def _answer(self, wanted: NativeWanted) -> Response:
        opened = self.routes.intake.open(wanted.call, key=g.key, namespace=g.key)
        if wanted.stream:
            replies = await cast("Request", request).held.enter_async_context(opened)
            return self.routes.event_stream(replies, self._begin(wanted, replies), replies.request_id)
        async with opened as replies:
            answer = self._begin(wanted, replies)
            async for index, event in replies:
                answer.take(index, event)
        told = await self.routes.put_together(answer.whole, answer.num_rated)
        return json_response(told, headers={"X-Request-Id": replies.request_id})

    def _begin(self, wanted: NativeWanted, replies: Begun) -> NativeAnswer:
        served = self.routes.served()
        head = NativeHead(model=served.id, context=served.context, is_cut=replies.is_cut)
        return NativeAnswer(wanted, head, num_choices=replies.num_choices)


def _cut_into_tokens(wanted: TextWanted, served: ServedModel) -> dict[str, Any]:
    vocabulary = served.vocabulary
    tokens = vocabulary.tokenize(wanted.text, add_special=wanted.add_special, parse_special=wanted.parse_special)
    if not wanted.with_pieces:
        return {"tokens": tokens}
    return {"tokens": [{"id": token, "piece": _shown(vocabulary.spelled(token))} for token in tokens]}


def _join_tokens(wanted: TextWanted, served: ServedModel) -> dict[str, Any]:
    return {"content": b"".join(map(served.vocabulary.spelled, wanted.tokens)).decode("utf-8", "replace")}


def _shown(piece: bytes) -> str | list[int]:
    """A token that is no whole text is shown as its bytes."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return list(piece)
