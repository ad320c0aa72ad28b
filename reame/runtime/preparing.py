"""Prompts to tokens and constraints to grammars: here when it is quick, in a thread when it is not."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from reame.core.request import Chat
from reame.errors import RequestError
from reame.runtime.prompts import num_characters, prepare

if TYPE_CHECKING:
    from reame.constraint.compiler import Compiled
    from reame.core.request import Call, Prompt
    from reame.runtime.prompts import Prepared, ServedModel

ANSWER = ".answer"
"""Where the schema of an answer is, in the constraint of tools that may be called instead."""
INLINE_CHARACTERS = 4096
"""A longer text is tokenised in an I/O thread: the event loop may not stand still for more than a millisecond."""


class Preparing:
    """Bounds: two texts are tokenised at once and one constraint is compiled; the others wait for their turn."""

    def __init__(self) -> None:
        self._tokenising = trio.CapacityLimiter(2)
        self._compiling = trio.CapacityLimiter(1)

    async def prompt(self, model: ServedModel, prompt: Prompt, call: Call) -> Prepared:
        function = partial(prepare, model, prompt, call)
        if _is_short(prompt):
            return function()
        prepared = await trio.to_thread.run_sync(function, limiter=self._tokenising)
        await trio.lowlevel.checkpoint_if_cancelled()  # the client may have left meanwhile
        return prepared

    async def grammar(self, model: ServedModel, call: Call) -> Compiled | None:
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
            error.param = _place(call, error.param or "")
            raise
        await trio.lowlevel.checkpoint_if_cancelled()
        return grammar


def _is_short(prompt: Prompt) -> bool:
    """Of what a template writes as JSON the length is not known before."""
    if isinstance(prompt, Chat) and (
        prompt.tools or prompt.variables or any(message.get("tool_calls") for message in prompt.messages)
    ):
        return False
    return num_characters(prompt) <= INLINE_CHARACTERS


def _place(call: Call, param: str) -> str:
    """In the request, of a fault at `param` of its constraint."""
    if call.answer_field and param.startswith(ANSWER):
        return call.answer_field + param.removeprefix(ANSWER)
    return call.constraint_field + param
