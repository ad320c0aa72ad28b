"""From the recorded bytes of a streaming completion to its tokens, times and counts. Pure, and done after the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h11
from attrs import frozen

from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Arrival = tuple[float, bytes]
"""What one `recv` returned and when, in seconds of `time.perf_counter`."""


@frozen(kw_only=True)
class Reply:
    """A completion as its client saw it. Times in seconds of `time.perf_counter`.

    `times`: when each piece of text came. `ended`: when the finish reason came, None if the client left before.
    """

    sent: float
    times: tuple[float, ...]
    text: str
    ended: float | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int

    @property
    def first_token_s(self) -> float:
        """Seconds from sending the request to the first token (or to the end, when that token shows no text)."""
        first = self.times[0] if self.times else self.ended
        if first is None:
            raise BenchError("a stream ended before its first token")
        return first - self.sent

    @property
    def decode_rate(self) -> float:
        """Tokens a second after the first one, until the end."""
        if self.ended is None or self.completion_tokens < 2:
            raise BenchError(f"a stream ended after {self.completion_tokens} tokens: too short for a rate")
        return (self.completion_tokens - 1) / (self.ended - self.sent - self.first_token_s)

    @property
    def prefill_rate(self) -> float:
        """Prompt tokens a second until the first token."""
        return self.prompt_tokens / self.first_token_s

    def worst_gap(self, start: float, end: float) -> float:
        """Longest silence in seconds between two pieces of text, one of them at least within `start`..`end`."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return max((after - before for before, after in pairs if after >= start and before <= end), default=end - start)

    def pieces_within(self, start: float, end: float) -> int:
        return sum(start <= time <= end for time in self.times)


def read(sent: float, arrivals: Sequence[Arrival]) -> Reply:
    """Raises BenchError for anything but a stream of chunks of a completion or a chat."""
    times, texts, ended = [], [], None
    usage: dict[str, Any] = {}
    for time, event in _events(arrivals):
        if "error" in event:
            raise BenchError(f"the stream broke with an error: {event['error']}")
        usage = event.get("usage") or usage
        for choice in event.get("choices", ()):
            text = choice.get("text") or choice.get("delta", {}).get("content")
            if text:
                times.append(time)
                texts.append(text)
            if choice.get("finish_reason"):
                ended = time
    return Reply(
        sent=sent,
        times=tuple(times),
        text="".join(texts),
        ended=ended,
        prompt_tokens=usage.get("prompt_tokens", 0),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0),
        completion_tokens=usage.get("completion_tokens", 0),
    )


def _events(arrivals: Sequence[Arrival]) -> Iterator[tuple[float, dict[str, Any]]]:
    """The JSON events with the time at which each was complete."""
    buffer = b""
    for time, data in _body(arrivals):
        buffer += data.replace(b"\r\n", b"\n")
        *complete, buffer = buffer.split(b"\n\n")
        for block in complete:
            payload = b"\n".join(line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:"))
            if payload and payload != b"[DONE]":
                yield time, json.loads(payload)


def _body(arrivals: Sequence[Arrival]) -> Iterator[Arrival]:
    """Takes the HTTP/1.1 framing off; whatever its status, a response that is not 200 ends here."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method="POST", target="/", headers=[("Host", "peer"), ("Content-Length", "0")]))
    connection.send(h11.EndOfMessage())
    status, refusal = 0, b""
    for time, data in arrivals:
        for event in _parts(connection, data):
            if isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data) and status == 200:
                yield time, bytes(event.data)
            elif isinstance(event, h11.Data):
                refusal += event.data
    if status != 200:
        text = refusal.decode(errors="replace").strip()
        raise BenchError(f"HTTP status {status}: {text[:300]}" if status else "the server closed without an answer")


def _parts(connection: h11.Connection, data: bytes) -> Iterator[h11.Event]:
    try:
        connection.receive_data(data)
        while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
            if isinstance(event, h11.ConnectionClosed):
                return
            assert isinstance(event, h11.Event)
            yield event
    except h11.RemoteProtocolError as error:
        raise BenchError(f"the server broke off its answer: {error}") from error
