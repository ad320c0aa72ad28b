"""An answer in llama-server's words: whole objects, or server-sent events of which the last tells how it ended. Pure.

An event that is not the last has a piece of `content` and `"stop": false`. There is no end mark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field, frozen

from reame.api.chunks import dumps
from reame.api.logprobs import rated_with_id
from reame.core.events import Delta

if TYPE_CHECKING:
    from reame.api.schema_native import NativeWanted
    from reame.core.events import Event, Finish, TokenLogprob


@frozen(kw_only=True)
class NativeHead:
    """What every answer repeats. `is_cut`: not all of what stands around the gap did fit into the context."""

    model: str
    context: int
    is_cut: bool = False


@define
class _Said:
    texts: list[str] = field(factory=list)
    tokens: list[TokenLogprob] = field(factory=list)


class NativeAnswer:
    """Gathers a call's events, or tells them as they come (see `reame.api.sse.Lines`)."""

    def __init__(self, wanted: NativeWanted, head: NativeHead, *, num_choices: int) -> None:
        self._wanted = wanted
        self._head = head
        self._num_choices = num_choices
        self._said: dict[int, _Said] = {}
        self._ends: dict[int, Finish] = {}

    def take(self, index: int, event: Event) -> bytes:
        """The lines of a stream for one event. Raises the RequestError of a sequence that failed."""
        said = self._said.setdefault(index, _Said())
        if isinstance(event, Delta):
            said.texts.append(event.text)
            said.tokens.extend(event.logprobs)
            return self._piece(index, event) if self._wanted.stream and (event.text or event.logprobs) else b""
        if event.error is not None:
            raise event.error
        self._ends[index] = event
        return f"data: {dumps(self._end(index, event))}\n\n".encode() if self._wanted.stream else b""

    @property
    def is_over(self) -> bool:
        return len(self._ends) == self._num_choices

    @property
    def num_rated(self) -> int:
        """Probabilities that `whole` tells."""
        top = self._wanted.call.logprobs or 0
        return (1 + top) * sum(len(said.tokens) for said in self._said.values()) if self._wanted.shows_probs else 0

    def whole(self) -> dict[str, Any] | list[dict[str, Any]]:
        """The answer, once all is over: a list when there may be several."""
        answers = [self._end(index, finish) for index, finish in sorted(self._ends.items())]
        return answers if self._wanted.as_list else answers[0]

    def _piece(self, index: int, delta: Delta) -> bytes:
        piece = {"index": index, "content": delta.text, "tokens": self._ids(list(delta.logprobs)), "stop": False}
        if self._wanted.shows_probs:
            piece["completion_probabilities"] = [rated_with_id(token) for token in delta.logprobs]
        return f"data: {dumps(piece)}\n\n".encode()

    def _ids(self, tokens: list[TokenLogprob]) -> list[int]:
        return [token.token for token in tokens] if self._wanted.shows_tokens else []

    def _end(self, index: int, finish: Finish) -> dict[str, Any]:
        """In a stream without what the pieces have told."""
        said, usage = self._said[index], finish.usage
        text = "".join(said.texts)
        kind = "limit" if finish.reason == "length" else "word" if finish.stop else "eos"
        end: dict[str, Any] = {
            "index": index,
            "content": text,
            "tokens": self._ids(said.tokens),
            "id_slot": -1,
            "stop": True,
            "model": self._head.model,
            "tokens_predicted": usage.completion_tokens,
            "tokens_evaluated": usage.prompt_tokens,
            "tokens_cached": usage.cached_tokens,
            "has_new_line": "\n" in text,
            "truncated": self._head.is_cut,
            "stop_type": kind,
            "stopping_word": finish.stop,
            "generation_settings": self._settings(),
            "timings": _timings(finish),
        }
        if self._wanted.stream:
            return end | {"content": "", "tokens": []}
        if self._wanted.shows_probs:
            end["completion_probabilities"] = [rated_with_id(token) for token in said.tokens]
        return end

    def _settings(self) -> dict[str, Any]:
        call = self._wanted.call
        return {
            "n_ctx": self._head.context,
            "n_predict": -1 if call.max_tokens is None else call.max_tokens,
            "temperature": call.sampling.temperature,
            "top_k": call.sampling.top_k,
            "top_p": call.sampling.top_p,
            "min_p": call.sampling.min_p,
            "stop": list(call.stop),
            "stream": self._wanted.stream,
        }


def _timings(finish: Finish) -> dict[str, float]:
    usage, timings = finish.usage, finish.timings
    computed = usage.prompt_tokens - usage.cached_tokens
    return {
        "cache_n": usage.cached_tokens,
        "prompt_n": computed,
        "prompt_ms": round(timings.prefill_ms, 3),
        "prompt_per_token_ms": _ratio(timings.prefill_ms, computed),
        "prompt_per_second": _ratio(1e3 * computed, timings.prefill_ms),
        "predicted_n": usage.completion_tokens,
        "predicted_ms": round(timings.decode_ms, 3),
        "predicted_per_token_ms": _ratio(timings.decode_ms, usage.completion_tokens),
        "predicted_per_second": _ratio(1e3 * usage.completion_tokens, timings.decode_ms),
    }


def _ratio(value: float, by: float) -> float:
    return round(value / by, 3) if by else 0.0
