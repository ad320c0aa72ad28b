"""The endpoints of other protocols than chat and completions: Anthropic's messages."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import frozen

from reame.api.anthropic import AnthropicVoice, anthropic_error
from reame.api.errors import error_object
from reame.api.routes import json_response
from reame.api.schema_anthropic import read_anthropic, read_count_tokens
from reame.core.request import Chat
from reame.runtime.prompts import tokenise

if TYPE_CHECKING:
    from typing import Any

    from quart_trio import QuartTrio
    from quart_trio.wrappers import TrioResponse as Response

    from reame.api.routes import Routes
    from reame.errors import RequestError


@frozen
class Protocols:
    """Their handlers."""

    routes: Routes

    def add_to(self, app: QuartTrio) -> None:
        app.add_url_rule("/messages", view_func=self.messages, methods=["POST"])
        app.add_url_rule("/messages/count_tokens", view_func=self.count_tokens, methods=["POST"])

    async def messages(self) -> Response:
        asked = await self.routes.wanted(read_anthropic)
        return await self.routes.answer(asked.wanted, AnthropicVoice())

    async def count_tokens(self) -> Response:
        asked = await self.routes.wanted(read_count_tokens)
        (prompt,) = asked.wanted.call.prompts
        assert isinstance(prompt, Chat)
        count = partial(tokenise, self.routes.served(), prompt)
        tokens = await trio.to_thread.run_sync(count, limiter=self.routes.parsing)
        return json_response({"input_tokens": len(tokens)})


def error_body(error: RequestError, path: str) -> dict[str, Any]:
    """The error as the clients of this path expect it."""
    return anthropic_error(error) if path.startswith("/messages") else error_object(error)
