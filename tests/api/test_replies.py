"""Events to OpenAI's JSON: whole answers and chunks, which must agree."""

from __future__ import annotations

import json
from math import nan
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import finish

from reame.api.chunks import Chunks, error_event
from reame.api.replies import Head, Reply
from reame.api.schema import Wanted
from reame.core.draft import DraftCount
from reame.core.events import Delta, Finish, Timings, TokenLogprob, Usage
from reame.core.request import Call, Chat
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.core.events import Event

HEAD = Head(id="1f", created=1_700_000_000, model="tiny", fingerprint="fp_1")
STREAM_FIELDS = {"created": 1_700_000_000, "model": "tiny", "system_fingerprint": "fp_1"}
TOKEN = TokenLogprob(7, b"a", -0.5)
Events = list[tuple[int, "Event"]]


def chat(**fields: Any) -> Wanted:
    call = {name: fields.pop(name) for name in ("n", "logprobs") if name in fields}
    return Wanted(call=Call(prompts=(Chat(messages=()),), **call), chat=True, **fields)


def text(*prompts: str, **fields: Any) -> Wanted:
    call = {name: fields.pop(name) for name in ("n", "logprobs", "prompt_logprobs") if name in fields}
    return Wanted(call=Call(prompts=prompts or ("p",), **call), **fields)


def whole(wanted: Wanted, events: Events, prompt_tokens: int = 5) -> dict[str, Any]:
    reply = Reply(wanted)
    for index, event in events:
        reply.take(index, event)
    return reply.whole(HEAD, prompt_tokens)


def chunks(wanted: Wanted, events: Events, prompt_tokens: int = 5) -> list[Any]:
    """The stream's data, parsed; the end mark must be there."""
    num_choices = len({index for index, _ in events})
    made = Chunks(wanted, HEAD, num_choices=num_choices, prompt_tokens=prompt_tokens)
    lines = b"".join(made.take(index, event) for index, event in events)
    assert made.is_over
    assert lines.isascii()
    *data, done, rest = lines.decode().split("\n\n")
    assert (done, rest) == ("data: [DONE]", "")
    assert all(each.startswith("data: ") for each in data)
    return [json.loads(each.removeprefix("data: ")) for each in data]


def test_a_whole_chat() -> None:
    events: Events = [(0, Delta(text="Hel")), (0, Delta(text="lo")), (0, finish("length", cached=3))]
    reply = whole(chat(), events)
    assert set(reply.pop("reame")) > {"live_tokens", "disk_tokens", "computed_tokens"}
    assert reply == {
        "id": "chatcmpl-1f",
        "object": "chat.completion",
        **STREAM_FIELDS,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "length",
                "stop_reason": None,
            }
        ],
        "usage": {
            "prompt_tokens": 5,
            "completion_tokens": 2,
            "total_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 3},
        },
    }


def test_choices_are_in_order_and_a_prompt_counts_once() -> None:
    events: Events = [(index, Delta(text=f"<{index}>")) for index in (5, 3, 4, 0, 2, 1)]
    events += [(index, finish(cached=4 * (index % 2), completion=index)) for index in range(6)]
    reply = whole(text("a", "b", "c", n=2, echo=("a", "b", "c")), events, 15)
    assert [choice["text"] for choice in reply["choices"]] == ["a<0>", "a<1>", "b<2>", "b<3>", "c<4>", "c<5>"]
    assert [choice["index"] for choice in reply["choices"]] == list(range(6))
    assert reply["object"] == "text_completion"
    assert reply["id"] == "cmpl-1f"
    assert reply["usage"] == {
        "prompt_tokens": 15,
        "completion_tokens": 15,
        "total_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def test_logprobs_of_a_whole_answer() -> None:
    events: Events = [(0, Delta(text="a", logprobs=(TOKEN,))), (0, Delta(text="a", logprobs=(TOKEN,))), (0, finish())]
    (choice,) = whole(text(logprobs=0), events)["choices"]
    assert choice["logprobs"]["text_offset"] == [0, 1]
    (choice,) = whole(chat(logprobs=0), events)["choices"]
    assert len(choice["logprobs"]["content"]) == 2


def test_a_chat_stream() -> None:
    events: Events = [(0, Delta(text="Hel")), (0, Delta(text="")), (0, Delta(text="lo")), (0, finish())]
    first, *rest = chunks(chat(stream=True), events)
    assert first == {
        "id": "chatcmpl-1f",
        "object": "chat.completion.chunk",
        **STREAM_FIELDS,
        "choices": [
            {
                "index": 0,
                "delta": {"role": "assistant", "content": ""},
                "logprobs": None,
                "finish_reason": None,
            }
        ],
    }
    assert [chunk["choices"][0]["delta"] for chunk in rest] == [{"content": "Hel"}, {"content": "lo"}, {}]
    assert [chunk["choices"][0]["finish_reason"] for chunk in rest] == [None, None, "stop"]


def test_a_stream_without_text_still_has_a_role() -> None:
    opening, end = chunks(chat(stream=True), [(0, finish("length"))])
    assert opening["choices"][0]["delta"]["role"] == "assistant"
    assert end["choices"][0]["finish_reason"] == "length"


def test_usage_is_a_chunk_of_its_own_and_only_when_wanted() -> None:
    events: Events = [(0, Delta(text="a")), (0, finish())]
    *others, last = chunks(chat(stream=True, include_usage=True), events)
    assert last["choices"] == []
    assert last["usage"] == whole(chat(), events)["usage"]
    assert [chunk["usage"] for chunk in others] == [None] * 3
    assert all("usage" not in chunk for chunk in chunks(chat(stream=True), events))


@pytest.mark.parametrize("include_usage", [True, False])
def test_the_last_chunk_and_the_whole_reply_say_what_was_not_computed(include_usage: bool) -> None:
    usage = Usage(prompt_tokens=5, cached_tokens=4, completion_tokens=1, disk_tokens=3)
    timings = Timings(queued_ms=1.04, prefill_ms=20.0, decode_ms=300.0, saved_ms=4000.0)
    drafts = DraftCount(proposed=9, accepted=7, seconds=0.25)
    events: Events = [(0, Finish(reason="stop", usage=usage, timings=timings, drafts=drafts))]
    expected = {
        "live_tokens": 1, "disk_tokens": 3, "computed_tokens": 1, "stored_answers": 0,
        "drafted_tokens": 9, "accepted_tokens": 7, "draft_saved_ms": 250.0,
        "queued_ms": 1.0, "prefill_ms": 20.0, "decode_ms": 300.0, "saved_ms": 4000.0,
    }  # fmt: skip
    *others, last = chunks(chat(stream=True, include_usage=include_usage), events)
    assert last["reame"] == expected == whole(chat(), events)["reame"]
    assert not any("reame" in chunk for chunk in others)


def test_a_completion_stream() -> None:
    events: Events = [(0, Delta(text="x")), (1, Delta(text="y")), (1, finish()), (0, finish())]
    streamed = chunks(text("a", "b", stream=True, echo=("a", "b")), events)
    told = [(c["choices"][0]["index"], c["choices"][0]["text"], c["choices"][0]["finish_reason"]) for c in streamed]
    assert told == [(0, "a", None), (0, "x", None), (1, "b", None), (1, "y", None), (1, "", "stop"), (0, "", "stop")]
    assert {chunk["object"] for chunk in streamed} == {"text_completion"}


def test_logprobs_in_a_stream_also_of_tokens_that_end_no_character() -> None:
    events: Events = [(0, Delta(text="", logprobs=(TOKEN,))), (0, Delta(text="ab", logprobs=(TOKEN,))), (0, finish())]
    _, first, second, _ = chunks(chat(stream=True, logprobs=0), events)
    assert first["choices"][0]["delta"] == {"content": ""}
    assert first["choices"][0]["logprobs"]["content"][0]["token"] == "a"
    assert second["choices"][0]["delta"] == {"content": "ab"}
    first, second, _ = chunks(text(stream=True, logprobs=0), events)
    assert first["choices"][0]["logprobs"]["text_offset"] == [0]
    assert second["choices"][0]["logprobs"]["text_offset"] == [1]


@pytest.mark.parametrize("wanted", [chat(), chat(stream=True)])
def test_a_sequence_that_failed_raises_its_error(wanted: Wanted) -> None:
    error = RequestError("too slow", status=408)
    usage = Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=0)
    taker = Chunks(wanted, HEAD, num_choices=1, prompt_tokens=1) if wanted.stream else Reply(wanted)
    with pytest.raises(RequestError, match="too slow"):
        taker.take(0, Finish(reason=None, usage=usage, error=error))


def test_an_error_event_is_one_event() -> None:
    name, data, *rest = error_event(RequestError("line\nline\u2028", status=503, code="c")).decode().split("\n")
    assert name == "event: error"
    assert json.loads(data.removeprefix("data: "))["error"]["message"] == "line\nline\u2028"
    assert rest == ["", ""]


@settings(deadline=None)
@given(st.lists(st.text()), st.booleans())
def test_streamed_text_is_the_whole_text(pieces: list[str], is_chat: bool) -> None:
    events: Events = [*((0, Delta(text=piece)) for piece in pieces), (0, finish())]
    wanted = chat(stream=True) if is_chat else text(stream=True)
    choices = [chunk["choices"][0] for chunk in chunks(wanted, events)]
    streamed = "".join(choice["delta"].get("content", "") if is_chat else choice["text"] for choice in choices)
    (choice,) = whole(chat() if is_chat else text(), events)["choices"]
    assert streamed == (choice["message"]["content"] if is_chat else choice["text"]) == "".join(pieces)


RATED = (
    TokenLogprob(1, b"<bos>", nan),
    TokenLogprob(2, b"The", -1.5, ((2, b"The", -1.5),)),
    TokenLogprob(3, b" sky", -2.0),
)


def test_a_prompt_that_is_rated_is_part_of_the_text() -> None:
    """The BOS that the tokeniser put in front is not shown; nothing precedes the first token."""
    wanted = text("The sky", echo=("The sky",), logprobs=1, prompt_logprobs=True)
    events: Events = [(0, Delta(prompt_logprobs=RATED)), (0, Delta(text="a", logprobs=(TOKEN,))), (0, finish())]
    (choice,) = whole(wanted, events)["choices"]
    assert choice["text"] == "The skya"
    assert choice["logprobs"] == {
        "tokens": ["", "The", " sky", "a"],
        "token_logprobs": [None, -1.5, -2.0, -0.5],
        "top_logprobs": [None, {"The": -1.5}, {" sky": -2.0}, {"a": -0.5}],
        "text_offset": [0, 0, 3, 7],
    }
    streamed = [chunk["choices"][0] for chunk in chunks(evolve(wanted, stream=True), events)]
    assert "".join(chunk["text"] for chunk in streamed) == "The skya"
    told = [chunk["logprobs"] for chunk in streamed if chunk["logprobs"]]
    assert {name: [each for one in told for each in one[name]] for name in told[0]} == choice["logprobs"]


def test_a_prompt_alone_is_rated() -> None:
    wanted = text("The sky", echo=("The sky",), logprobs=0, prompt_logprobs=True)
    events: Events = [(0, Delta(prompt_logprobs=RATED[1:])), (0, finish("length", completion=0))]
    (choice,) = whole(wanted, events)["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("The sky", "length")
    assert choice["logprobs"]["text_offset"] == [0, 3]
