"""A call becomes requests: one for each choice of each prompt, with the server's defaults and limits."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import trio

from reame.core.request import Request, before_banned
from reame.runtime.labelling import is_rated
from reame.runtime.prompts import check_length, check_tokens, seeded

if TYPE_CHECKING:
    from reame.config import Config
    from reame.constraint.compiler import Compiled
    from reame.core.request import Call
    from reame.runtime.prompts import Prepared, ServedModel


def requests_of(
    config: Config, model: ServedModel, call: Call, prompts: list[Prepared], grammar: Compiled | None, *, key: str,
    namespace: str,
) -> list[Request]:  # fmt: skip
    """All choices of the first prompt, then those of the next. Raises RequestError (400) for a prompt that is too
    long for the context, or has tokens that do not exist."""
    name = secrets.token_hex(12)
    default = config.sampling.max_tokens or model.context
    limit = 0 if call.warm else default if call.max_tokens is None else call.max_tokens
    timeout = call.timeout or float("inf")
    if not call.background:
        timeout = min(timeout, config.scheduler.request_timeout_s)
    forced = grammar.matcher().forced() if grammar and not call.prompt_logprobs else ()
    forced = before_banned(forced, call.sampling.banned)
    for prepared, source in zip(prompts, call.prompts, strict=True):
        check_length(prepared.tokens, model.context, source)
        check_tokens(prepared.tokens, model.info.vocab_size)
    longest = max(len(prepared.tokens) for prepared in prompts)
    rates_labels = bool(limit) and is_rated(call, grammar, longest, model.context)
    rates_fields = call.tells_fields and call.logprobs is None
    requests: list[Request] = []
    for prepared in prompts:
        prompt = prepared.tokens
        room = model.context - len(prompt)
        most = min(limit, room)
        healed = prepared.healed if most else b""
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
                    healed=healed,
                    most_again=min(len(healed), room - most),
                    generation_s=call.generation_s,
                    deadline=trio.current_time() + timeout,
                )
            )
    return requests
