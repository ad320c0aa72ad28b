"""One answer in the terminal: asked of the intake, shown as it comes, and what became of it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio
from attrs import asdict, define, evolve, fields_dict, frozen

from reame.api.conclave import said
from reame.commands.election import told
from reame.commands.front import INTERRUPTED, unless_interrupted
from reame.config_load import override, parse_set
from reame.core.events import Delta, Finish
from reame.core.request import Call, Chat, Sampling
from reame.errors import ConfigError, ModelError, RequestError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from reame.commands.screen import Screen
    from reame.config import Config
    from reame.core.vote import Conclave
    from reame.runtime.intake import Intake
    from reame.runtime.prompts import ServedModel

Message = dict[str, str]
"""OpenAI's: role and content."""

NO_TEMPLATE = "(this model has no chat template: it continues your text; model.chat_template would name one)"


@frozen(kw_only=True)
class Manner:
    """How answers are to be: the config's [sampling], a seed (None: a new one each time), a system text."""

    config: Config
    seed: int | None = None
    system: str = ""
    stats: bool = False
    conclave: Conclave | None = None

    def __attrs_post_init__(self) -> None:
        if self.seed is not None and not -(2**63) <= self.seed < 2**64:
            raise ConfigError(f"seed: expected an integer of at most 64 bits, got {self.seed}")

    def with_setting(self, name: str, value: str) -> Manner:
        """This with another `value`, as typed, of `seed`, `system` or a key of [sampling]. Raises ConfigError."""
        if name == "system":
            return evolve(self, system=value)
        if name == "seed":
            try:
                return evolve(self, seed=None if value in ("", "none") else int(value))
            except ValueError:
                raise ConfigError(f"seed: expected an integer or none, got {value}") from None
        key, parsed = parse_set(f"sampling.{name}={value}")
        return evolve(self, config=override(self.config, {key: parsed}, "/set"))

    def settings(self) -> dict[str, object]:
        """Name and value of all that `with_setting` can set."""
        sampling = asdict(self.config.sampling)
        del sampling["infill_temperature"]  # of editors; a chat fills no gaps
        return {**sampling, "seed": self.seed, "system": self.system}

    def call(self, model: ServedModel, messages: Sequence[Message]) -> Call:
        defaults = asdict(self.config.sampling)
        values = {name: value for name, value in defaults.items() if name in fields_dict(Sampling)}
        if self.system:
            messages = [{"role": "system", "content": self.system}, *messages]
        prompt = _document(messages) if model.template is None else Chat(messages=tuple(messages))
        sampling = Sampling(**values, seed=self.seed)
        return Call(
            prompts=(prompt,), sampling=sampling, max_tokens=defaults["max_tokens"] or None, conclave=self.conclave
        )


@define
class Answer:
    """The text so far; then how it ended. Neither `finish` nor `error`: the person stopped it."""

    text: str = ""
    finish: Finish | None = None
    error: RequestError | None = None


async def show(intake: Intake, screen: Screen, call: Call, answer: Answer) -> None:
    """Ask, and write the answer on the screen and into `answer`, which also holds what had come when cancelled."""
    try:
        async with intake.open(call, key="", namespace="") as replies, trio.open_nursery() as nursery:
            waiting = trio.CancelScope()
            nursery.start_soon(_spin, screen, f"reading {replies.prompt_tokens} tokens", waiting)
            async for _, event in replies:
                waiting.cancel()
                if isinstance(event, Delta) and event.progress:
                    waiting = trio.CancelScope()
                    nursery.start_soon(_spin, screen, said(event.progress), waiting)
                elif isinstance(event, Delta):
                    answer.text += event.text
                    screen.answer(event.text)
                else:
                    answer.finish, answer.error = event, event.error
    except RequestError as error:
        answer.error = error


async def ask_once(
    intake: Intake, screen: Screen, manner: Manner, question: str, interrupts: AsyncIterator[int]
) -> int:
    """The whole of a one-shot: the exit status. Raises RequestError when there is no answer, or only half of one."""
    model = ready_model(intake)
    if model.template is None:
        screen.note(NO_TEMPLATE)
    answer = Answer()
    call = manner.call(model, [{"role": "user", "content": question}])
    done = await unless_interrupted(interrupts, partial(show, intake, screen, call, answer))
    if answer.text or not answer.error:
        screen.end_answer()
    if answer.error:
        raise answer.error
    if answer.finish and answer.finish.verdict:
        screen.note(told(answer.finish.verdict))
    if answer.finish and fills_context(answer.finish, model):
        screen.note(f"(the answer was cut: the context of {model.context} tokens is full)")
    if answer.finish and manner.stats:
        screen.note(account(answer.finish))
    return 0 if done else INTERRUPTED


def ready_model(intake: Intake) -> ServedModel:
    if intake.model is None:
        raise ModelError("the model is not ready")
    return intake.model


def fills_context(finish: Finish, model: ServedModel) -> bool:
    """Whether the answer ended because the context did. Of an election it is not known: its usage is that of all."""
    used = finish.usage.prompt_tokens + finish.usage.completion_tokens
    return finish.reason == "length" and finish.verdict is None and used >= model.context


def account(finish: Finish) -> str:
    """One line: tokens read and drawn, seconds and rates. Those of the prompt that were not computed are apart."""
    usage, timings = finish.usage, finish.timings
    if finish.stored:
        return f"(the answer of {usage.completion_tokens} tokens was known from before)"
    computed = usage.prompt_tokens - usage.cached_tokens
    cached = f" and {usage.cached_tokens} cached" if usage.cached_tokens else ""
    read = f"prompt: {computed} tokens{cached}, {_pace(computed, timings.prefill_ms)}"
    what = "all answers" if finish.verdict else "answer"
    drawn = f"{what}: {usage.completion_tokens} tokens, {_pace(usage.completion_tokens - 1, timings.decode_ms)}"
    return f"({read}; {drawn})"


def _pace(count: int, milliseconds: float) -> str:
    seconds = milliseconds / 1e3
    return f"{seconds:.2f} s" + (f", {count / seconds:.1f} tok/s" if count > 0 and seconds > 0 else "")


def _document(messages: Sequence[Message]) -> str:
    """For a model that only continues text: what it wrote stands right behind what it continued."""
    text = ""
    for message in messages:
        text += message["content"] if message["role"] == "assistant" or not text else f"\n{message['content']}"
    return text


async def _spin(screen: Screen, what: str, scope: trio.CancelScope) -> None:
    with scope:
        await screen.spin(what)
