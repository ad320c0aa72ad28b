"""A finished call as one OpenAI object. Pure."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from reame.api.conclave import conclave_object
from reame.api.logprobs import CompletionLogprobs, aligned, chat_logprobs
from reame.api.tools import message_of, parts_of
from reame.core.draft import DraftCount
from reame.core.events import Delta, Finish
from reame.core.field_confidence import field_confidence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.api.schema import Wanted
    from reame.core.events import Event, Timings, TokenLogprob, Usage


@frozen(kw_only=True)
class Head:
    """What every part of a reply repeats. `id` without its `chatcmpl-` or `cmpl-`; `created` in unix seconds."""

    id: str
    created: int
    model: str
    fingerprint: str

    def fields(self, *, chat: bool, stream: bool) -> dict[str, Any]:
        prefix, name = ("chatcmpl-", "chat.completion") if chat else ("cmpl-", "text_completion")
        return {
            "id": prefix + self.id,
            "object": name + ".chunk" if chat and stream else name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


@define
class Tally:
    """Adds up the usage of a call's sequences, `n` to a prompt, index prompt-major.

    A prompt counts once whatever `n` is; cached are those of its tokens that none of its sequences had to compute.
    """

    n: int
    tells_fields: bool = False
    completion_tokens: int = 0
    least_cached: dict[int, Usage] = field(factory=dict)
    timings: list[Timings] = field(factory=list)
    num_stored: int = 0
    elections: dict[int, dict[str, Any]] = field(factory=dict)
    drafts: DraftCount = field(factory=DraftCount)
    tokens: defaultdict[int, list[TokenLogprob]] = field(factory=partial(defaultdict, list))
    confidence: dict[int, dict[str, float]] = field(factory=dict)
    labels: dict[int, list[dict[str, Any]]] = field(factory=dict)

    def hear(self, index: int, delta: Delta) -> None:
        """What a sequence says before its end."""
        if self.tells_fields:
            self.tokens[index].extend(delta.logprobs)

    def add(self, index: int, finish: Finish) -> None:
        self.completion_tokens += finish.usage.completion_tokens
        prompt, own = index // self.n, finish.usage
        self.least_cached[prompt] = min(own, self.least_cached.get(prompt, own), key=lambda u: u.cached_tokens)
        self.timings.append(finish.timings)
        self.num_stored += finish.stored
        if finish.verdict is not None:
            self.elections[index] = conclave_object(finish.verdict, stored=finish.stored)
        if self.tells_fields:
            self.confidence[index] = field_confidence(self.tokens.pop(index, ()))
        if finish.labels:
            self.labels[prompt] = [{"label": each.label, "probability": each.probability} for each in finish.labels]
        self.drafts.add(finish.drafts.proposed, finish.drafts.accepted, finish.drafts.seconds)

    def usage(self, prompt_tokens: int) -> dict[str, Any]:
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": sum(u.cached_tokens for u in self.least_cached.values())},
        }

    def reame(self, prompt_tokens: int) -> dict[str, Any]:
        """Reame's own object: where the prompt's tokens came from, and the time (of the slowest choice, by stage)."""
        cached = sum(usage.cached_tokens for usage in self.least_cached.values())
        disk = sum(usage.disk_tokens for usage in self.least_cached.values())
        stages = {name: round(max(getattr(t, name) for t in self.timings), 1) for name in _STAGES}
        return {
            "live_tokens": cached - disk,
            "disk_tokens": disk,
            "computed_tokens": prompt_tokens - cached,
            "stored_answers": self.num_stored,
            "drafted_tokens": self.drafts.proposed,
            "accepted_tokens": self.drafts.accepted,
            "draft_saved_ms": round(1e3 * self.drafts.seconds, 1),
            **stages,
            **_told("conclave", self.elections, len(self.least_cached)),
            **_told("labels", self.labels, len(self.least_cached)),
            **_told("confidence", self.confidence, len(self.timings)),
        }


def _told(name: str, found: Mapping[int, Any], number: int) -> dict[str, Any]:
    """What there is one of, or a list where there are `number` prompts or choices; nothing where there is none."""
    told = [found[index] for index in sorted(found)]
    return {name: told[0] if number == 1 else told} if told else {}


_STAGES = ("queued_ms", "prefill_ms", "decode_ms", "saved_ms")


@define
class _Choice:
    texts: list[str] = field(factory=list)
    prompt: tuple[TokenLogprob, ...] = ()
    logprobs: list[TokenLogprob] = field(factory=list)
    reason: str | None = None
    stop: str = ""


class Reply:
    """Gathers a call's events; `whole` is the answer once every sequence has finished."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._choices: dict[int, _Choice] = {}
        self._tally = Tally(wanted.call.n, tells_fields=wanted.call.tells_fields)

    def take(self, index: int, event: Event) -> None:
        """Raises the RequestError of a sequence that failed."""
        choice = self._choices.setdefault(index, _Choice())
        if isinstance(event, Delta):
            self._tally.hear(index, event)
            choice.texts.append(event.text)
            choice.prompt += event.prompt_logprobs
            choice.logprobs.extend(event.logprobs)
        elif event.error is not None:
            raise event.error
        else:
            choice.reason, choice.stop = event.reason, event.stop
            self._tally.add(index, event)

    @property
    def num_rated(self) -> int:
        """Probabilities that `whole` tells."""
        top = self._wanted.call.logprobs
        tokens = sum(len(choice.prompt) + len(choice.logprobs) for choice in self._choices.values())
        return 0 if top is None else (1 + top) * tokens

    def whole(self, head: Head, prompt_tokens: int) -> dict[str, Any]:
        chat = self._wanted.chat
        choices = []
        for index, choice in sorted(self._choices.items()):
            shaped = self._message(head.id, index, choice) if chat else self._text(index, choice)
            calls = chat and bool(shaped["message"].get("tool_calls"))
            reason = "tool_calls" if calls and choice.reason == "stop" and not choice.stop else choice.reason
            told = {"finish_reason": reason, "stop_reason": choice.stop or None}
            choices.append({"index": index, **shaped, **told})
        usage = self._tally.usage(prompt_tokens)
        reame = self._tally.reame(prompt_tokens)
        return {**head.fields(chat=chat, stream=False), "choices": choices, "usage": usage, "reame": reame}

    def _message(self, request_id: str, index: int, choice: _Choice) -> dict[str, Any]:
        text = "".join(choice.texts)
        said: dict[str, Any] = {"content": text}
        if self._wanted.tools:
            parts = parts_of(text, must_call=self._wanted.must_call, either=self._wanted.either,
                             was_cut=choice.reason == "length")  # fmt: skip
            said = message_of(parts, request_id, index)
        message = {"role": "assistant", **said, "refusal": None}
        wanted = self._wanted.call.logprobs is not None
        return {"message": message, "logprobs": chat_logprobs(choice.logprobs) if wanted else None}

    def _text(self, index: int, choice: _Choice) -> dict[str, Any]:
        echo = self._wanted.echo[index // self._wanted.call.n] if self._wanted.echo else ""
        told = None
        if self._wanted.call.logprobs is not None:
            told = CompletionLogprobs().take([*aligned(choice.prompt, echo), *choice.logprobs])
        return {"text": echo + "".join(choice.texts), "logprobs": told}
