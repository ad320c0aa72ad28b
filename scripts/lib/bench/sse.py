"""From the recorded bytes of a streaming completion to its tokens, times and counts. Pure, and done after the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import h11
from attrs import frozen

from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
    first_event: float | None = None
    """When the server said anything at all, text or not."""
    skipped_tokens: int = 0
    """Tokens of the answer that took no step of their own: accepted drafts, or all of an old answer given again."""

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
        return max(self.gaps(start, end), default=end - start)

    def gaps(self, start: float, end: float) -> list[float]:
        """All silences between two pieces of text that reach into `start`..`end`."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return [after - before for before, after in pairs if after >= start and before <= end]

    def pieces_within(self, start: float, end: float) -> int:
        return sum(start <= time <= end for time in self.times)


def read(sent: float, arrivals: Sequence[Arrival]) -> Reply:
    """Raises BenchError for anything but a stream of chunks of a completion or a chat, or of llama-server's own."""
    times, texts, ended, first = [], [], None, None
    usage: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for time, event in _events(arrivals):
        if "error" in event:
            raise BenchError(f"the stream broke with an error: {event['error']}")
        first = first or time
        usage = event.get("usage") or usage
        last = event if "reame" in event or "timings" in event else last
        if "content" in event and "choices" not in event:
            usage = event if event.get("stop") else usage
            ended = time if event.get("stop") else ended
        for choice in event.get("choices", ({"text": event.get("content")},)):
            text = choice.get("text") or choice.get("delta", {}).get("content")
            if text:
                times.append(time)
                texts.append(text)
            if choice.get("finish_reason"):
                ended = time
    completion = usage.get("completion_tokens", usage.get("tokens_predicted", 0))
    return Reply(
        sent=sent,
        times=tuple(times),
        text="".join(texts),
        ended=ended,
        prompt_tokens=usage.get("prompt_tokens", usage.get("tokens_evaluated", 0)),
        cached_tokens=_cached(usage),
        completion_tokens=completion,
        first_event=first,
        skipped_tokens=_skipped(last, completion),
    )


def _cached(usage: Mapping[str, Any]) -> int:
    details, timings = usage.get("prompt_tokens_details") or {}, usage.get("timings") or {}
    return int(details.get("cached_tokens", timings.get("cache_n", 0)))


def _skipped(last: Mapping[str, Any], completion_tokens: int) -> int:
    """From what the servers say beside OpenAI's fields, if they say it."""
    reame, timings = last.get("reame") or {}, last.get("timings") or {}
    if reame.get("stored_answers"):
        return completion_tokens
    return int(reame.get("accepted_tokens") or timings.get("draft_n_accepted") or 0)


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
