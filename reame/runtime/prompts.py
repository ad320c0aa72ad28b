"""What a prompt is to the served model: tokens, with limits; and the seeds of several answers to it."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from reame.core.request import Chat, Prompt, Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.core.chat import ChatTemplate
    from reame.engine.base import ModelInfo, Vocabulary


@frozen(kw_only=True)
class ServedModel:
    """What is served. `context`: tokens of one request at most. `template` None: the model has none."""

    id: str
    context: int
    info: ModelInfo
    fingerprint: str
    vocabulary: Vocabulary
    template: ChatTemplate | None


def tokenise(model: ServedModel, prompt: str | Chat) -> tuple[int, ...]:
    """Text or conversation to tokens, with exactly one BOS where the model wants one."""
    info = model.info
    if isinstance(prompt, Chat):
        if model.template is None:
            raise RequestError(
                "this model has no chat template; use /v1/completions, or set model.chat_template in the config",
                code="no_chat_template",
            )
        text = model.template.render(prompt, now=datetime.now().astimezone())
    else:
        text = prompt
    has_bos = bool(info.bos_text) and text.startswith(info.bos_text)
    tokens = model.vocabulary.tokenize(text, add_special=not has_bos, parse_special=True)
    if not tokens and info.bos_token is not None:
        tokens = [info.bos_token]
    return tuple(tokens)


def check_length(prompt: tuple[int, ...], context: int, source: Prompt) -> None:
    """A prompt must be there, and leave room for one token."""
    param = "messages" if isinstance(source, Chat) else "prompt"
    if not prompt:
        raise RequestError("the prompt is empty", param=param)
    if len(prompt) >= context:
        raise RequestError(
            f"this server's context is {context} tokens, the prompt has {len(prompt)} and an answer needs one more; "
            "shorten the prompt or raise engine.context",
            param=param,
            code="context_length_exceeded",
        )


def check_tokens(prompt: tuple[int, ...], vocab_size: int) -> None:
    """An id that does not exist would fail the step, and with it everybody else's sequence in it."""
    if min(prompt) < 0 or max(prompt) >= vocab_size:
        raise RequestError(f"this model's token ids go from 0 to {vocab_size - 1}", param="prompt")


def seeded(sampling: Sampling, choice: int) -> Sampling:
    """The sampling of one of n choices: the first has the request's own seed, the others seeds derived from it."""
    seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
    if choice:
        seed = int.from_bytes(hashlib.blake2b(f"{seed}/{choice}".encode(), digest_size=4).digest())
    return evolve(sampling, seed=seed)
