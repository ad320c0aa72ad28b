"""What a prompt is to the served model: tokens, with limits; and the seeds of several answers to it."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from reame.core.fim import Infill, Layout, lay_out, read_marks
from reame.core.request import Chat, Prompt, Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler
    from reame.core.chat import ChatTemplate
    from reame.core.healing import Pieces
    from reame.core.request import Call
    from reame.engine.base import ModelInfo, Vocabulary

_AROUND = 32
"""Characters that a template puts around a message, and marks of files around a file."""


@frozen(kw_only=True)
class ServedModel:
    """What is served. `context`: tokens of one request at most. `template` None: the model has none."""

    id: str
    context: int
    info: ModelInfo
    fingerprint: str
    vocabulary: Vocabulary
    template: ChatTemplate | None
    pieces: Pieces | None = None
    """For token healing; None: there is none."""
    constraints: ConstraintCompiler | None = None
    """None: answers cannot be constrained."""


@frozen(kw_only=True)
class Prepared:
    """A prompt's tokens. `healed`: what the last ones spelled, which were taken back. `is_cut`: some of what was to
    stand around a gap did not fit."""

    tokens: tuple[int, ...]
    healed: bytes = b""
    is_cut: bool = False


def prepare(model: ServedModel, prompt: Prompt, call: Call) -> Prepared:
    """Any prompt to tokens, and back to where its last word begins if that is wanted. Token ids stay as they are.

    A text in the model's own form for filling in the middle is read as the gap that it means, unless `call.heal` is
    False. Answers with logprobs, or under a constraint, begin where the prompt ends.
    """
    if isinstance(prompt, tuple):
        return Prepared(tokens=prompt)
    if isinstance(prompt, str) and call.heal is not False and not call.prompt_logprobs:
        prompt = _as_infill(prompt, model)
    heal = (call.logprobs is None or call.ids_only) and call.constraint is None
    if isinstance(prompt, Infill):
        layout = _lay_out(model, prompt, call)
        return _heal(model, layout, heal=heal and call.heal is not False)
    tokens = tokenise(model, prompt)
    return _heal(model, Layout(tokens, len(tokens) - 1), heal=heal and bool(call.heal))


def num_characters(prompt: Prompt) -> int:
    """How much there is to be put together and cut into tokens, about."""
    match prompt:
        case str():
            return len(prompt)
        case Infill():
            files = sum(len(name) + len(text) + _AROUND for name, text in prompt.extra)
            return len(prompt.prefix) + len(prompt.suffix) + files
        case Chat():
            texts = (str(value) for message in prompt.messages for value in message.values())
            return _AROUND * len(prompt.messages) + sum(map(len, texts))
    return 0


def _as_infill(text: str, model: ServedModel) -> str | Infill:
    marks = read_marks(text, model.info.fim) if model.info.fim else None
    if marks is None:
        return text
    before, prefix, suffix = marks
    return Infill(prefix=prefix, suffix=suffix, before=before, parse_special=True)


def _lay_out(model: ServedModel, infill: Infill, call: Call) -> Layout:
    info = model.info
    if info.fim is None:
        raise RequestError(
            "this model was not trained to fill in the middle (it has no tokens for that); serve one that was, such as"
            " qwen2.5-coder-1.5b, or leave the suffix out",
            param="input_suffix" if infill.cut else "suffix",
            code="no_fill_in_the_middle",
        )
    has_bos = not info.adds_bos or info.bos_token is None or infill.before.startswith(info.bos_text or "\0")
    return lay_out(
        infill,
        info.fim,
        partial(model.vocabulary.tokenize, add_special=False),
        room=model.context - min(call.max_tokens or model.context, model.context // 4) - 1,
        first=() if has_bos or info.bos_token is None else (info.bos_token,),
    )


def _heal(model: ServedModel, layout: Layout, *, heal: bool) -> Prepared:
    number, text = 0, b""
    if heal and model.pieces is not None and layout.typed > 0:
        number, text = model.pieces.take_back(layout.tokens[-layout.typed :])
    tokens = layout.tokens[: len(layout.tokens) - number]
    return Prepared(tokens=tokens, healed=text, is_cut=layout.is_cut)


def tokenise(model: ServedModel, prompt: str | Chat) -> tuple[int, ...]:
    """Text or conversation to tokens, with exactly one BOS where the model wants one."""
    info = model.info
    if isinstance(prompt, Chat):
        if model.template is None:
            raise RequestError(
                "this model has no working chat template; use /v1/completions, or set model.chat_template",
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
    """A prompt must be there, and leave room for one token.

    By the first five words clients (LiteLLM, LangChain) see what is wrong, and shorten what they send.
    """
    param = "messages" if isinstance(source, Chat) else "prompt"
    if not prompt:
        raise RequestError("the prompt is empty", param=param)
    if len(prompt) >= context:
        raise RequestError(
            f"prompt is too long: {len(prompt)} tokens, this server's context is {context} tokens and an answer needs"
            " one more; shorten the prompt or raise engine.context",
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
