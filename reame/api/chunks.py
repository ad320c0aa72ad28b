"""A running call as OpenAI's server-sent events: bytes for each event, no I/O. Pure.

Most of a chunk is the same for the whole stream, so it is built once per choice, and a piece of text costs one escape
and one join. All is ASCII: U+2028, U+0085 and the like are escaped, because some clients split lines at them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING, Any

from attrs import frozen

from reame.api.conclave import progress_comment
from reame.api.errors import error_object
from reame.api.logprobs import CompletionLogprobs, aligned, chat_logprobs
from reame.api.replies import Tally
from reame.api.tools import deltas_of
from reame.core.events import Delta
from reame.core.tool_calls import CallReader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reame.api.replies import Head
    from reame.api.schema import Wanted
    from reame.core.events import Event, TokenLogprob
    from reame.core.tool_calls import Part
    from reame.errors import RequestError

KEEP_ALIVE = b": keep-alive\n\n"
_DONE = "data: [DONE]\n\n"
_CLOSE = "}\n\n"


def dumps(value: Any) -> str:
    """Compact JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"))


def error_event(error: RequestError) -> bytes:
    """What a stream says when it fails after its headers: an event named `error`, which is its last."""
    return f"event: error\ndata: {dumps(error_object(error))}\n\n".encode()


@frozen
class _Shape:
    """How a choice of one endpoint holds text: `before`, the text as JSON, `after`; `last` has none."""

    before: str
    after: str
    last: str


_CHAT = _Shape('"delta":{"content":', "}", '"delta":{}')
_ROLE = '"delta":{"role":"assistant","content":""}'
_TEXT = _Shape('"text":', "", '"text":""')


class Chunks:
    """The chunks of one stream. Per choice: the role (or the echoed prompt), text, the reason of its end."""

    def __init__(self, wanted: Wanted, head: Head, *, num_choices: int, prompt_tokens: int) -> None:
        self._wanted = wanted
        self._num_choices = num_choices
        self._prompt_tokens = prompt_tokens
        self._shape = _CHAT if wanted.chat else _TEXT
        fields = dumps(head.fields(chat=wanted.chat, stream=True))
        self._head = f"data: {fields[:-1]},"
        self._tail = '],"usage":null}\n\n' if wanted.include_usage else "]}\n\n"
        self._plain_end = f'{self._shape.after},"logprobs":null,"finish_reason":null}}{self._tail}'
        self._starts: dict[int, str] = {}
        self._offsets: dict[int, CompletionLogprobs] = {}
        self._request_id = head.id
        self._calls: defaultdict[int, CallReader] = defaultdict(partial(CallReader, wanted.must_call, wanted.either))
        self._tally = Tally(wanted.call.n, tells_fields=wanted.call.tells_fields)
        self._num_finished = 0

    def take(self, index: int, event: Event) -> bytes:
        """The lines for one event, b"" when it says nothing. Raises the RequestError of a sequence that failed."""
        opening = "" if index in self._starts else self._open(index)
        if isinstance(event, Delta):
            self._tally.hear(index, event)
            return (opening + self._delta(index, event)).encode()
        if event.error is not None:
            raise event.error
        self._num_finished += 1
        self._tally.add(index, event)
        reason: str | None = event.reason
        opening += self._rest(index, was_cut=reason == "length")
        if reason == "stop" and not event.stop and self._calls[index].num_calls:
            reason = "tool_calls"
        last = self._chunk(index, self._shape.last, reason=reason, stop=event.stop)
        return (opening + (self._end(last) if self.is_over else last)).encode()

    @property
    def is_over(self) -> bool:
        """Every choice has finished and the end mark is out."""
        return self._num_finished == self._num_choices

    def _end(self, last: str) -> str:
        """The last choice's end, the usage where it is wanted, Reame's own object in the last chunk, the end mark."""
        reame = dumps(self._tally.reame(self._prompt_tokens))
        if self._wanted.include_usage:
            usage = dumps(self._tally.usage(self._prompt_tokens))
            last += f'{self._head}"choices":[],"usage":{usage}}}\n\n'
        return f'{last.removesuffix(_CLOSE)},"reame":{reame}{_CLOSE}{_DONE}'

    def _open(self, index: int) -> str:
        shape = self._shape
        self._starts[index] = f'{self._head}"choices":[{{"index":{index},{shape.before}'
        if self._wanted.chat:
            return self._chunk(index, _ROLE)
        if not self._wanted.echo or self._wanted.call.prompt_logprobs:
            return ""
        return f"{self._starts[index]}{encode_basestring_ascii(self._echo(index))}{self._plain_end}"

    def _echo(self, index: int) -> str:
        return self._wanted.echo[index // self._wanted.call.n]

    def _delta(self, index: int, delta: Delta) -> str:
        if delta.progress is not None:
            return progress_comment(delta.progress)
        if delta.prompt_logprobs:
            echo = self._echo(index)
            rated = self._logprobs(index, aligned(delta.prompt_logprobs, echo))
            return self._chunk(index, f"{_TEXT.before}{encode_basestring_ascii(echo)}", logprobs=rated)
        if self._wanted.tools:
            return self._parts(index, self._calls[index].take(delta.text), delta.logprobs)
        if delta.logprobs and self._wanted.call.logprobs is not None:
            content = f"{self._shape.before}{encode_basestring_ascii(delta.text)}{self._shape.after}"
            return self._chunk(index, content, logprobs=self._logprobs(index, delta.logprobs))
        if not delta.text:
            return ""
        return f"{self._starts[index]}{encode_basestring_ascii(delta.text)}{self._plain_end}"

    def _parts(self, index: int, parts: list[Part], logprobs: tuple[TokenLogprob, ...] = ()) -> str:
        """A chunk for each part of an answer with tools; the logprobs are in the first."""
        told = self._logprobs(index, logprobs) if logprobs and self._wanted.call.logprobs is not None else None
        deltas = deltas_of(parts, self._request_id, index) or ([{}] if told else [])
        lines = ""
        for delta in deltas:
            lines += self._chunk(index, f'"delta":{dumps(delta)}', logprobs=told)
            told = None
        return lines

    def _rest(self, index: int, *, was_cut: bool) -> str:
        return self._parts(index, self._calls[index].end(was_cut=was_cut)) if self._wanted.tools else ""

    def _logprobs(self, index: int, tokens: Iterable[TokenLogprob]) -> dict[str, Any]:
        if self._wanted.chat:
            return chat_logprobs(tokens)
        return self._offsets.setdefault(index, CompletionLogprobs()).take(tokens)

    def _chunk(
        self,
        index: int,
        content: str,
        *,
        logprobs: dict[str, Any] | None = None,
        reason: str | None = None,
        stop: str = "",
    ) -> str:
        ended = f',"stop_reason":{dumps(stop or None)}' if reason else ""
        rest = f'"logprobs":{dumps(logprobs)},"finish_reason":{dumps(reason)}{ended}}}{self._tail}'
        return f'{self._head}"choices":[{{"index":{index},{content},{rest}'
