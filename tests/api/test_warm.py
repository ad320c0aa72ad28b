"""`POST /v1/warm`: what it takes and refuses, the one object, the stream, pins, and clients that leave."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
import trio
from scripted import MODEL, NoMetrics, finish, serving
from warming import WarmingIntake, computed

from reame.api.app import create_app
from reame.api.schema import Limits
from reame.api.schema_warm import LONGEST_S, read_warm
from reame.config import Config
from reame.config_keys import ApiKey
from reame.core.events import Delta, Finish, Timings, Usage
from reame.core.request import Call, Chat, Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol
    from scripted import Step

    from reame.api.schema_warm import WarmWanted

WARM = "/v1/warm"
LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100)
TEXT = {"prompt": "Once upon a time"}
CHAT = {"messages": [{"role": "system", "content": "Be brief."}]}


@pytest.fixture
def intake() -> WarmingIntake:
    return WarmingIntake(lambda _: computed(3, 4))


async def warm(client: TestClientProtocol, body: dict[str, Any], path: str = WARM) -> dict[str, Any]:
    response = await client.post(path, json=body)
    assert response.status_code == 200, await response.get_data()
    return dict(await response.get_json())


async def stream(client: TestClientProtocol, body: dict[str, Any]) -> list[str]:
    """The data of the events, which must be all there is but for comments."""
    response = await client.post(WARM, json=body | {"stream": True})
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    events = str(await response.get_data(as_text=True)).split("\n\n")
    assert events.pop() == ""
    return [event.removeprefix("data: ") for event in events if not event.startswith(":")]


def read(body: dict[str, Any]) -> WarmWanted:
    return read_warm(json.dumps(body).encode(), LIMITS)


class TestBody:
    @pytest.mark.parametrize(
        ("body", "prompts"),
        [
            ({"prompt": "a"}, ("a",)),
            ({"prompt": ["a", "b"]}, ("a", "b")),
            ({"prompt": [1, 2]}, ((1, 2),)),
            ({"prompt": [[1], [2, 3]]}, ((1,), (2, 3))),
            ({"prompt": "a", "messages": None}, ("a",)),
            (CHAT, (Chat(messages=({"role": "system", "content": "Be brief."},)),)),
            (
                {"messages": [{"role": "assistant", "content": "He"}]},
                (Chat(messages=({"role": "assistant", "content": "He"},), continue_last=True),),
            ),
        ],
    )
    def test_prompts(self, body: dict[str, Any], prompts: object) -> None:
        assert read(body).call == Call(prompts=prompts, warm=True)  # type: ignore[arg-type]

    def test_the_body_that_will_ask_can_warm(self) -> None:
        asking = CHAT | {
            "model": "m",
            "n": 3,
            "temperature": 0,
            "seed": 4,
            "max_tokens": 9,
            "stop": "x",
            "logprobs": True,
        }
        wanted = read(asking)
        assert wanted.call == read(CHAT).call
        assert (wanted.model, wanted.stream, wanted.pin_s) == ("m", False, None)

    @pytest.mark.parametrize(
        ("body", "param", "said"),
        [
            ({}, "prompt", "prompt or messages is required"),
            ({"prompt": None}, "prompt", "prompt or messages is required"),
            (TEXT | CHAT, "messages", "messages and prompt are both there"),
            ({"prompt": []}, "prompt", "empty list"),
            ({"prompt": [1, "a"]}, "prompt", "all text or all token ids"),
            ({"prompt": [100]}, "prompt", "from 0 to 99"),
            ({"messages": []}, "messages", "must not be empty"),
            ({"messages": [{"role": "user"}]}, "messages[0].content", "a string or a list"),
            (CHAT | {"tools": [{"type": "function"}]}, "tools[0].function", "is required"),
            (TEXT | {"pin": 1}, "pin", "true or false"),
            (TEXT | {"pin": True, "ttl_s": 0}, "ttl_s", "above 0"),
            (TEXT | {"pin": True, "ttl_s": "1h"}, "ttl_s", "above 0"),
            (TEXT | {"pin": True, "ttl_s": 1e9}, "ttl_s", "above 0"),
            (TEXT | {"ttl_s": 60}, "ttl_s", "needs pin"),
            (TEXT | {"pin": False, "ttl_s": 60}, "ttl_s", "needs pin"),
            (TEXT | {"stream": "yes"}, "stream", "true or false"),
        ],
    )
    def test_faults_name_their_field(self, body: dict[str, Any], param: str, said: str) -> None:
        with pytest.raises(RequestError, match=said) as raised:
            read(body)
        assert (raised.value.status, raised.value.param) == (400, param)

    def test_pins(self) -> None:
        assert read(TEXT | {"pin": True}).pin_s == LONGEST_S
        assert read(TEXT | {"pin": True, "ttl_s": 0.5}).pin_s == 0.5
        assert read(TEXT | {"pin": False}).pin_s is None


class TestWhole:
    @pytest.mark.parametrize("path", ["/v1/warm", "/warm", "/v1/warm/"])
    async def test_one_object(self, intake: WarmingIntake, client: TestClientProtocol, path: str) -> None:
        usage = Usage(prompt_tokens=5, cached_tokens=2, disk_tokens=1, completion_tokens=0)
        times = Timings(queued_ms=3, prefill_ms=40, saved_ms=16)
        intake.script = lambda _: [(0, Delta(num_computed=4)), (0, Finish(reason="stop", usage=usage, timings=times))]
        body = await warm(client, TEXT, path)
        reame = body.pop("reame")
        assert abs(body.pop("created") - time.time()) < 3600
        assert body == {
            "object": "warm",
            "id": "warm-0123456789abcdef",
            "model": MODEL,
            "prompt_tokens": 5,
            "cached_tokens": 2,
            "computed_tokens": 2,
            "pinned_until": None,
        }
        assert {name: reame[name] for name in ("live_tokens", "disk_tokens", "computed_tokens")} == {
            "live_tokens": 1,
            "disk_tokens": 1,
            "computed_tokens": 2,
        }
        assert (reame["queued_ms"], reame["prefill_ms"], reame["saved_ms"]) == (3, 40, 16)
        assert intake.call == Call(prompts=("Once upon a time",), warm=True)
        assert (intake.left, intake.pins) == (1, [])

    async def test_several_prompts_add_up(self, intake: WarmingIntake, client: TestClientProtocol) -> None:
        intake.script = lambda _: [(1, finish(cached=4)), (0, Delta(num_computed=4)), (0, finish(cached=0))]
        body = await warm(client, {"prompt": ["a", "b"]})
        assert (body["prompt_tokens"], body["cached_tokens"], body["computed_tokens"]) == (10, 4, 4)

    async def test_who_calls_is_whose_memory_it_is(self, intake: WarmingIntake) -> None:
        client = create_app(Config(), intake, NoMetrics(), (ApiKey("ann", "sk-one"),)).test_client()
        response = await client.post(WARM, json=TEXT | {"pin": True}, headers={"Authorization": "Bearer sk-one"})
        assert response.status_code == 200
        assert intake.opened[0][1:] == ("ann", "ann")
        assert [namespace for _, namespace, _ in intake.pins] == ["ann"]
        assert (await client.post(WARM, json=TEXT)).status_code == 401

    @pytest.mark.parametrize(
        ("body", "status", "param"),
        [({}, 400, "prompt"), (TEXT | {"model": "gpt-4"}, 404, "model"), (TEXT | {"ttl_s": 1}, 400, "ttl_s")],
    )
    async def test_errors_as_everywhere(
        self, intake: WarmingIntake, client: TestClientProtocol, body: dict[str, Any], status: int, param: str
    ) -> None:
        for more in ({}, {"stream": True}):
            response = await client.post(WARM, json=body | more)
            assert response.status_code == status
            error = (await response.get_json())["error"]
            assert error["param"] == param
        assert not intake.opened

    async def test_refusals_and_failures(self, intake: WarmingIntake, client: TestClientProtocol) -> None:
        usage = Usage(prompt_tokens=5, cached_tokens=0, completion_tokens=0)
        late = RequestError("took too long", status=408, code="request_timeout")
        intake.script = lambda _: [(0, Delta(num_computed=1)), (0, Finish(reason=None, usage=usage, error=late))]
        response = await client.post(WARM, json=TEXT | {"pin": True})
        assert response.status_code == 408
        assert (await response.get_json())["error"]["code"] == "request_timeout"
        assert (intake.left, intake.pins) == (1, [])
        intake.refusal = RequestError("full", status=429, code="queue_full", retry_after=2)
        response = await client.post(WARM, json=TEXT)
        assert (response.status_code, response.headers["Retry-After"]) == (429, "2")
        assert (await client.get(WARM)).status_code == 405
        assert "POST /v1/warm" in (await (await client.get("/nope")).get_json())["error"]["message"]


class TestPins:
    async def test_each_prompt_is_pinned_when_it_is_computed(
        self, intake: WarmingIntake, client: TestClientProtocol
    ) -> None:
        intake.script = lambda _: [(1, finish()), (0, finish())]
        before = time.time()
        until = (await warm(client, {"prompt": ["a", "b"], "pin": True, "ttl_s": 3600}))["pinned_until"]
        assert before + 3600 <= until <= time.time() + 3601
        assert intake.pins == [((1, 2, 3, 4, 5), "", until)] * 2

    async def test_for_ever_is_ten_years(self, intake: WarmingIntake, client: TestClientProtocol) -> None:
        until = (await warm(client, TEXT | {"pin": True}))["pinned_until"]
        assert 9.9 < (until - time.time()) / 86_400 / 365 < 10.1

    async def test_where_nothing_is_kept_on_disk_nothing_is_pinned(
        self, intake: WarmingIntake, client: TestClientProtocol
    ) -> None:
        intake.keeps = False
        assert (await warm(client, TEXT | {"pin": True}))["pinned_until"] is None
        assert (await stream(client, TEXT | {"pin": True}))[-1] == "[DONE]"


class TestStream:
    async def test_progress_then_the_object_then_the_end(
        self, intake: WarmingIntake, client: TestClientProtocol
    ) -> None:
        *progress, last, done = await stream(client, TEXT | {"pin": True})
        assert [json.loads(event) for event in progress] == [
            {"object": "warm.progress", "computed_tokens": count, "prompt_tokens": 5} for count in (0, 3, 4)
        ]
        whole = json.loads(last)
        assert (whole["object"], whole["computed_tokens"]) == ("warm", 2)
        assert whole["pinned_until"] == intake.pins[0][2]
        assert whole.keys() == (await warm(client, TEXT)).keys()
        assert done == "[DONE]"
        assert intake.left == 2

    async def test_a_prompt_that_is_done_counts_whole(self, intake: WarmingIntake, client: TestClientProtocol) -> None:
        intake.script = lambda _: [(0, Delta(num_computed=3)), (1, finish()), (0, Delta(num_computed=4)), (0, finish())]
        events = [json.loads(event) for event in (await stream(client, {"prompt": ["a", "b"]}))[:-1]]
        assert [event.get("computed_tokens") for event in events[:-1]] == [0, 3, 8, 9]
        assert {event["prompt_tokens"] for event in events} == {10}

    async def test_a_failure_is_an_error_event(self, intake: WarmingIntake, client: TestClientProtocol) -> None:
        usage = Usage(prompt_tokens=5, cached_tokens=0, completion_tokens=0)
        error = RequestError("stopping", status=503, code="server_stopping")
        intake.script = lambda _: [(0, Finish(reason=None, usage=usage, error=error))]
        response = await client.post(WARM, json=TEXT | {"stream": True})
        body = str(await response.get_data(as_text=True))
        assert "event: error\ndata: " in body
        assert json.loads(body.split("data: ")[-1])["error"]["code"] == "server_stopping"
        assert "[DONE]" not in body

    async def test_comments_keep_it_open_while_others_are_served(self, intake: WarmingIntake) -> None:
        idle = trio.Event()
        intake.script = lambda _: [idle, *computed(4)]
        async with (
            serving(intake, keep_alive_s=0.01) as served,
            served.http.stream("POST", WARM, json=TEXT | {"stream": True}) as response,
        ):
            lines = []
            async for line in response.aiter_lines():
                lines.append(line)
                if lines.count(": keep-alive") == 2:
                    idle.set()
        assert lines[0].startswith('data: {"object":"warm.progress","computed_tokens":0,')
        assert [line for line in lines if line][-1] == "data: [DONE]"

    async def test_a_pin_that_takes_longer_than_the_silence_allowed_loses_nothing(self, intake: WarmingIntake) -> None:
        """The wait for the next event is given up for a comment while the pin is being written."""
        tries = 0

        class Slow(WarmingIntake):
            async def pin(self, tokens: tuple[int, ...], *, namespace: str, until: float, era: int = 0) -> bool:
                nonlocal tries
                tries += 1
                if tries < 3:
                    await trio.sleep_forever()
                return True

        async with serving(Slow(lambda _: computed(4)), keep_alive_s=0.01) as served:
            response = await served.http.post(WARM, json=TEXT | {"pin": True, "stream": True})
        assert tries == 3
        assert response.text.count(": keep-alive") == 2
        assert '"object":"warm",' in response.text
        assert response.text.endswith("data: [DONE]\n\n")

    @pytest.mark.parametrize("streamed", [True, False])
    async def test_a_client_that_leaves_ends_its_call(self, intake: WarmingIntake, streamed: bool) -> None:
        asked = trio.Event()

        def script(_: Call) -> list[Step]:
            asked.set()
            return [(0, Delta(num_computed=1)), trio.Event()]

        intake.script = script
        data = json.dumps(TEXT | {"stream": streamed, "pin": True}).encode()
        head = (
            f"POST {WARM} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        async with serving(intake) as served:
            client = await served.raw(head.encode() + data)
            await asked.wait()
            await client.aclose()
            await intake.all_left.wait()
        assert intake.pins == []
