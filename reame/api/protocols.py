"""The endpoints of other protocols than chat and completions: Anthropic's messages, OpenAI's responses; and what
describes them all."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from attrs import frozen
from quart import g, request
from quart_trio.wrappers import TrioResponse as Response

from reame.api.anthropic import AnthropicVoice, anthropic_error
from reame.api.chunks import dumps
from reame.api.docs_page import CONTENT_SECURITY, page
from reame.api.errors import error_object
from reame.api.openapi import document
from reame.api.response_items import input_items
from reame.api.response_object import bare_id, response_of_item, said
from reame.api.responses import ResponsesVoice
from reame.api.routes import json_response
from reame.api.schema_anthropic import MESSAGES_NAMES, named, read_anthropic, read_count_tokens
from reame.api.schema_batches import page as part_of
from reame.api.schema_responses import RESPONSES_NAMES, read_responses
from reame.core.request import Chat
from reame.errors import RequestError
from reame.runtime.prompts import tokenise

if TYPE_CHECKING:
    from collections.abc import Iterable

    from quart_trio import QuartTrio

    from reame.api.routes import Routes

MOST_ITEMS = 20
"""In a list whose length the query does not say."""


@frozen
class Protocols:
    """Their handlers."""

    routes: Routes

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/messages", view_func=self.messages, methods=["POST"])
        app.add_url_rule("/messages/count_tokens", view_func=self.count_tokens, methods=["POST"])
        app.add_url_rule("/responses", view_func=self.responses, methods=["POST"])
        app.add_url_rule("/responses/<name>", view_func=self.response, methods=["GET"])
        app.add_url_rule("/responses/<name>", view_func=self.delete_response, methods=["DELETE"])
        app.add_url_rule("/responses/<name>/input_items", view_func=self.input_items, methods=["GET"])
        app.add_url_rule("/openapi.json", view_func=self.openapi, methods=["GET"])
        app.add_url_rule("/docs", view_func=self.docs, methods=["GET"])

    async def messages(self) -> Response:
        asked = await self.routes.wanted(read_anthropic)
        with named(MESSAGES_NAMES):
            return await self.routes.answer(asked.wanted, AnthropicVoice())

    async def count_tokens(self) -> Response:
        asked = await self.routes.wanted(read_count_tokens)
        (prompt,) = asked.wanted.call.prompts
        assert isinstance(prompt, Chat)
        count = partial(tokenise, self.routes.served(), prompt)
        tokens = await trio.to_thread.run_sync(count, limiter=self.routes.parsing)
        return json_response({"input_tokens": len(tokens)})

    async def responses(self) -> Response:
        key, era = g.key, self.routes.intake.era(g.key)  # before anything kept is read: it may be forgotten meanwhile
        asked = await self.routes.wanted(read_responses)
        if asked.referred:
            with_items = partial(asked.with_items, await self._items(asked.referred))
            asked = await trio.to_thread.run_sync(with_items, limiter=self.routes.parsing)
        history = (await self._kept(asked.previous))["messages"] if asked.previous else []
        after = partial(asked.after, history, self.routes.limits())
        wanted = await trio.to_thread.run_sync(after, limiter=self.routes.parsing)
        said_before = [*history, *asked.messages]

        def keep(response: dict[str, Any]) -> None:
            if asked.store:
                text = dumps({"response": response, "messages": [*said_before, said(response)]})
                self.routes.intake.keep_text(response["id"], text, namespace=key, era=era)

        with named(RESPONSES_NAMES):
            return await self.routes.answer(wanted, ResponsesVoice(asked.echo, keep))

    async def response(self, name: str) -> Response:
        kept = await self._kept(name, status=404, param=None)
        return json_response(kept["response"])

    async def delete_response(self, name: str) -> Response:
        self.routes.served()  # before, nobody knows what is kept
        if not await self.routes.intake.drop_text(name, namespace=g.key):
            raise self._unknown(status=404, param=None)
        return json_response({"id": name, "object": "response", "deleted": True})

    async def input_items(self, name: str) -> Response:
        kept = await self._kept(name, status=404, param=None)
        items = input_items(kept["messages"][:-1], bare_id(kept["response"]))
        return json_response(part_of(list(reversed(items)), request.args, MOST_ITEMS))

    async def openapi(self) -> Response:
        return json_response(self._document())

    async def docs(self) -> Response:
        html = page(self._document(), model=self.routes.intake.model_id)
        headers = {"Content-Security-Policy": CONTENT_SECURITY, "X-Content-Type-Options": "nosniff"}
        return Response(html, headers=headers, content_type="text/html; charset=utf-8")

    def _document(self) -> dict[str, Any]:
        limits = self.routes.limits()
        return document(vocab_size=limits.vocab_size, most_choices=limits.max_n)

    async def _kept(self, name: str, *, status: int = 400, param: str | None = "previous_response_id") -> Any:
        """The response of this name, and all messages up to its own. Raises RequestError when it is not there."""
        self.routes.served()  # before, nobody knows what is kept
        text = await self.routes.intake.text(name, namespace=g.key)
        if text is None:
            raise self._unknown(status=status, param=param)
        return json.loads(text)

    async def _items(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Items of kept responses by their ids. Raises RequestError when one is not there."""
        responses = dict.fromkeys(filter(None, map(response_of_item, names)))
        kept = [await self._kept(name, status=404, param="input") for name in responses]
        items = {item["id"]: item for each in kept for item in each["response"]["output"]}
        if missing := [name for name in names if name not in items]:
            message = f"No item {missing[0][:80]!r} was kept for this key: send the item itself."
            raise RequestError(message, status=404, param="input", code="item_not_found")
        return items

    def _unknown(self, *, status: int, param: str | None) -> RequestError:
        why = "or too long ago" if self.routes.intake.keeps_texts else "and this server keeps none (memory.answers)"
        message = f"No response of this name was kept for this key, {why}: send the conversation as `input`."
        return RequestError(message, status=status, param=param, code="previous_response_not_found")


def error_body(error: RequestError, path: str) -> dict[str, Any]:
    """The error as the clients of this path expect it."""
    return anthropic_error(error) if path.startswith("/messages") else error_object(error)
