"""Requests a minute and tokens a day, for each key by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import NoMetrics, ScriptedIntake, chat_body

from reame.api.app import create_app
from reame.api.guards import RequestRate
from reame.config import Config, ServerConfig
from reame.config_keys import ApiKey
from reame.core.events import Delta, Finish, Usage
from reame.core.request import Call, Request
from reame.errors import RequestError
from reame.runtime.allowance import DAY_S, DailyTokens
from reame.runtime.replies import Replies

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol

KEYS = (ApiKey("anna", "a" * 32), ApiKey("bert", "b" * 32))


def client_of(**server: int) -> TestClientProtocol:
    config = Config(server=ServerConfig(**server))
    return create_app(config, ScriptedIntake(), NoMetrics(), KEYS).test_client()  # type: ignore[arg-type]


def auth(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name[0] * 32}"}


def test_a_bucket_fills_again() -> None:
    now = 100.0
    rate = RequestRate(3, lambda: now)
    for _ in range(3):
        rate.take("anna")
    with pytest.raises(RequestError) as caught:
        rate.take("anna")
    assert (caught.value.status, caught.value.retry_after) == (429, 20)
    rate.take("bert")
    now += 20
    rate.take("anna")
    with pytest.raises(RequestError):
        rate.take("anna")
    now += 10_000
    for _ in range(3):
        rate.take("anna")
    with pytest.raises(RequestError):
        rate.take("anna")


@given(st.integers(1, 50), st.lists(st.floats(0, 30), max_size=200))
def test_no_minute_and_a_bit_has_more_than_two_bucketfuls(per_minute: int, pauses: list[float]) -> None:
    now, taken, waits = 0.0, [], []
    rate = RequestRate(per_minute, lambda: now)
    for pause in pauses:
        now += pause
        try:
            rate.take("")
        except RequestError as error:
            waits.append(error.retry_after or 0)
        else:
            taken.append(now)
    assert all(0 < wait <= 60 / per_minute + 1 for wait in waits)
    for start in taken:
        assert sum(start <= moment < start + 60 for moment in taken) <= 2 * per_minute


def test_a_day_ends_at_midnight() -> None:
    now = 7 * DAY_S + 100.5
    day = DailyTokens(10, lambda: now)
    day.check("anna")
    day.spend("anna", 9)
    day.check("anna")
    day.spend("anna", 500)
    with pytest.raises(RequestError) as caught:
        day.check("anna")
    assert (caught.value.status, caught.value.code) == (429, "daily_tokens_exceeded")
    assert caught.value.retry_after == DAY_S - 100
    day.check("bert")
    now = 8.0 * DAY_S
    day.check("anna")


def test_what_a_call_has_used() -> None:
    """Whole: what its ends say. Left in the middle: at least the pieces that came."""
    replies = Replies(Call(prompts=("x",)), [Request(id="r-0", prompt=(1, 2, 3), max_tokens=9)], None)  # type: ignore[arg-type]
    for _ in range(2):
        replies._noted(0, Delta(text="x"))
    assert replies.num_tokens == 5
    usage = Usage(prompt_tokens=3, cached_tokens=0, completion_tokens=7)
    replies._noted(0, Finish(reason="stop", usage=usage))
    assert replies.num_tokens == 10


async def test_requests_of_a_minute() -> None:
    client = client_of(requests_per_minute=2)
    for _ in range(2):
        assert (await client.post("/v1/chat/completions", json=chat_body(), headers=auth("anna"))).status_code == 200
    refused = await client.post("/v1/completions", json={"prompt": "x"}, headers=auth("anna"))
    error = (await refused.get_json())["error"]
    assert (refused.status_code, error["code"], error["type"]) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert 0 < int(refused.headers["Retry-After"]) <= 30
    assert (await client.post("/v1/chat/completions", json=chat_body(), headers=auth("bert"))).status_code == 200
    assert (await client.get("/v1/models", headers=auth("anna"))).status_code == 200


async def test_bad_requests_count_and_strangers_do_not() -> None:
    client = client_of(requests_per_minute=1)
    for _ in range(3):
        assert (await client.post("/v1/chat/completions", json=chat_body())).status_code == 401
    assert (await client.post("/v1/chat/completions", json={}, headers=auth("anna"))).status_code == 400
    assert (await client.post("/v1/chat/completions", json=chat_body(), headers=auth("anna"))).status_code == 429
