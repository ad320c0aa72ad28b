"""From bytes on a socket to a reply's tokens, times and faults; and a play of two streams on real sockets."""

from __future__ import annotations

import itertools
import json
import socketserver
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "scripts" / "lib"))

from bench.client import Address, Cue, Part, play
from bench.errors import BenchError
from bench.remote import address_of
from bench.sse import Reply, read

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
USAGE = {"prompt_tokens": 16, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}


def event(text: str = "", *, finish: str | None = None, usage: dict[str, Any] | None = None) -> bytes:
    body: dict[str, Any] = {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}
    return f"data: {json.dumps(body | ({'usage': usage} if usage else {}))}\n\n".encode()


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def whole_stream() -> list[bytes]:
    """Three tokens, the finish, usage in an event of its own as OpenAI sends it, the end."""
    usage = f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n".encode()
    parts = [event("One"), event(" grün"), event("."), event(finish="length"), usage, b"data: [DONE]\n\n"]
    return [HEAD, *(chunk(part) for part in parts), b"0\r\n\r\n"]


def test_times_and_rates_by_hand() -> None:
    times = [10.1, 10.5, 10.75, 11.0, 11.5, 11.5, 11.5, 11.5]
    reply = read(10.0, list(zip(times, whole_stream(), strict=True)))
    assert reply.text == "One grün."
    assert reply.times == (10.5, 10.75, 11.0)
    assert reply.ended == 11.5
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (16, 1, 3)
    assert reply.first_token_s == pytest.approx(0.5)
    assert reply.decode_rate == pytest.approx(2 / 1.0)  # two tokens after the first, in 10.5 .. 11.5
    assert reply.prefill_rate == pytest.approx(16 / 0.5)


@given(st.lists(st.integers(1, 700), max_size=30))
def test_any_split_of_the_bytes_reads_the_same(cuts: list[int]) -> None:
    data = b"".join(whole_stream())
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(edges)]
    reply = read(0.0, [(float(time), piece) for time, piece in enumerate(pieces)])
    assert (reply.text, reply.completion_tokens) == ("One grün.", 3)
    assert list(reply.times) == sorted(reply.times)


def test_a_stream_that_the_client_left() -> None:
    reply = read(0.0, [(1.0, HEAD + chunk(event("One"))), (2.0, chunk(event(" two")))])
    assert (reply.ended, reply.text) == (None, "One two")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'HTTP/1.1 429 Too Many\r\nContent-Length: 15\r\n\r\n{"error":"full"}'[:-1], "HTTP status 429"),
        (HEAD + chunk(b'data: {"error": {"message": "no room"}}\n\n'), "no room"),
        (HEAD + b"zz\r\n", "broke off"),
        (b"", "broke off"),
    ],
)
def test_faults_are_told(data: bytes, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        read(0.0, [(1.0, data)])


def test_gap_counts_silences_that_reach_into_the_window() -> None:
    reply = Reply(
        sent=0.0,
        times=(1.0, 2.0, 6.0, 6.5, 9.5, 20.0),
        text="",
        ended=None,
        prompt_tokens=0,
        cached_tokens=0,
        completion_tokens=0,
    )
    assert reply.worst_gap(3.0, 6.2) == 4.0
    assert reply.worst_gap(6.1, 9.0) == 3.0
    assert reply.worst_gap(6.1, 10.0) == 10.5  # the silence that begins in the window
    assert reply.worst_gap(30.0, 34.0) == 4.0  # nothing at all came: the whole window was silent
    assert reply.pieces_within(2.0, 6.5) == 3


def test_too_short_for_a_rate() -> None:
    reply = read(0.0, [(1.0, HEAD + chunk(event("x", finish="stop", usage=USAGE | {"completion_tokens": 1})))])
    with pytest.raises(BenchError, match="too short"):
        _ = reply.decode_rate


def test_play_sends_on_cue_and_leaves_on_cue() -> None:
    """The first stream would never end; the second is asked after two of its events, and ends it with its third."""
    asked: list[str] = []
    with server(asked) as port:
        endless, short = play(
            Address(port=port),
            [
                Part(body={"prompt": "endless"}, until=Cue(1, 3)),
                Part(body={"prompt": "short"}, after=Cue(0, 2)),
            ],
        )
    assert asked == ["endless", "short"]
    assert endless.ended is None
    assert short.sent >= endless.times[1]
    assert short.text == "One grün."


def test_llama_servers_own_stream() -> None:
    """As /infill and /completion send it: no `choices`, the numbers in the event that stops."""
    numbers = {"stop": True, "tokens_evaluated": 90, "tokens_predicted": 2, "timings": {"cache_n": 80, "prompt_n": 10}}
    events = [{"content": ""}, {"content": "ab", "stop": False}, {"content": "c"} | numbers]
    sent = [HEAD, *(chunk(f"data: {json.dumps(body)}\n\n".encode()) for body in events)]
    reply = read(1.0, [(2.0, sent[0] + sent[1]), (3.0, sent[2]), (4.0, sent[3])])
    assert (reply.text, reply.first_event, reply.first_token_s, reply.ended) == ("abc", 2.0, 2.0, 4.0)
    assert (reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens) == (90, 80, 2)


@pytest.mark.parametrize(
    ("told", "skipped"),
    [
        ({}, 0),
        ({"reame": {"accepted_tokens": 2, "stored_answers": 0}}, 2),
        ({"reame": {"accepted_tokens": 0, "stored_answers": 1}}, 3),
        ({"timings": {"draft_n": 5, "draft_n_accepted": 1}}, 1),
        ({"timings": {"predicted_n": 3}}, 0),
    ],
)
def test_answer_tokens_that_took_no_step(told: dict[str, Any], skipped: int) -> None:
    last = {"choices": [], "usage": USAGE} | told
    data = HEAD + chunk(event("One")) + chunk(f"data: {json.dumps(last)}\n\n".encode())
    assert read(0.0, [(1.0, data)]).skipped_tokens == skipped


def test_play_sends_at_its_time() -> None:
    asked: list[str] = []
    with server(asked) as port:
        late, soon = play(
            Address(port=port), [Part(body={"prompt": "late"}, at=0.2), Part(body={"prompt": "soon"}, at=0.1)]
        )
    assert asked == ["soon", "late"]
    assert late.sent - soon.sent >= 0.05


def test_what_a_foreign_server_is_sent() -> None:
    address = address_of("https://models.example/api/v1/", key="k")
    assert address.url == "https://models.example:443/api"
    sent = address.request("/v1/completions", {"prompt": "x", "reame": {"answers": False}})
    head, _, body = sent.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /api/v1/completions HTTP/1.1\r\nHost: models.example\r\n")
    assert b"Authorization: Bearer k" in head
    assert json.loads(body) == {"prompt": "x"}
    assert address_of("http://127.0.0.1:81").url == "http://127.0.0.1:81"


@pytest.mark.parametrize("url", ["llama", "ftp://x", "http://", "http://x:y", "http://x/?a=1"])
def test_a_peer_that_is_no_url(url: str) -> None:
    with pytest.raises(BenchError, match=r"peer takes|no URL"):
        address_of(url)


def test_play_when_the_cue_never_comes() -> None:
    with server([]) as port, pytest.raises(BenchError, match="turn came"):
        play(Address(port=port), [Part(body={"prompt": "short"}), Part(body={"prompt": "short"}, after=Cue(0, 99))])


def test_play_against_nobody() -> None:
    with server([]) as port:
        pass
    with pytest.raises(BenchError, match="connection"):
        play(Address(port=port), [Part(body={"prompt": "short"})])


@contextmanager
def server(asked: list[str]) -> Iterator[int]:
    """Answers with `whole_stream`; the prompt "endless" gets tokens until its client leaves."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while line := self.rfile.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            asked.append(json.loads(self.rfile.read(length))["prompt"])
            if asked[-1] != "endless":
                self.wfile.write(b"".join(whole_stream()))
                return
            self.wfile.write(HEAD)
            try:
                while True:
                    self.wfile.write(chunk(event(" on")))
            except OSError:
                return

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = False
        block_on_close = True

    with Server(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield listening.server_address[1]
        finally:
            listening.shutdown()
            thread.join()
