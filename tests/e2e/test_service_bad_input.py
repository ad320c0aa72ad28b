"""What clients get wrong, said to a real daemon: a status and an error object that help, and never a 500."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from talking import CHAT, COMPLETIONS, answer, ask, say

if TYPE_CHECKING:
    from httpx2 import AsyncClient

JSON = {"Content-Type": "application/json"}
GOOD = say("Hello", 2)
MESSAGE = GOOD["messages"]


def body(**fields: Any) -> bytes:
    return json.dumps(GOOD | fields).encode()


BAD: list[tuple[int, str, str, bytes, dict[str, str]]] = [
    (400, "POST", CHAT, b'{"messages": [', JSON),
    (400, "POST", CHAT, b"[]", JSON),
    (400, "POST", CHAT, b'"hello"', JSON),
    (400, "POST", CHAT, b"", JSON),
    (400, "POST", CHAT, b"\xff\xfe{}", JSON),
    (400, "POST", CHAT, b"[" * 100_000, JSON),
    (400, "POST", CHAT, b'{"max_tokens": 1}', JSON),
    (400, "POST", CHAT, body(messages=[]), JSON),
    (400, "POST", CHAT, body(messages="x"), JSON),
    (400, "POST", CHAT, body(messages=[{"role": "foo", "content": "x"}]), JSON),
    (400, "POST", CHAT, body(messages=[*MESSAGE, {"role": "user"}]), JSON),
    (400, "POST", CHAT, body(temperature="hot"), JSON),
    (400, "POST", CHAT, body(temperature=-1), JSON),
    (400, "POST", CHAT, body(max_tokens=0), JSON),
    (400, "POST", CHAT, body(max_tokens=1e400), JSON),
    (400, "POST", CHAT, body(n=10_000), JSON),
    (400, "POST", CHAT, body(stop=["x"] * 1000), JSON),
    (400, "POST", CHAT, body(logit_bias={"999999999": 1}), JSON),
    (400, "POST", CHAT, body(response_format={"type": "xml"}), JSON),
    (400, "POST", CHAT, body(response_format={"type": "json_schema", "json_schema": {"schema": {"type": "w"}}}), JSON),
    (400, "POST", COMPLETIONS, b'{"prompt": [999999999]}', JSON),
    (400, "POST", COMPLETIONS, b'{"prompt": [-1]}', JSON),
    (404, "POST", CHAT, body(model="gpt-17"), JSON),
    (404, "GET", "/v1/nonesuch", b"", {}),
    (404, "GET", "/v1/models/../../etc/passwd", b"", {}),
    (405, "GET", CHAT, b"", {}),
    (405, "DELETE", CHAT, b"", {}),
    (413, "POST", CHAT, body(messages=[{"role": "user", "content": "x" * (17 << 20)}]), JSON),
    (415, "POST", CHAT, body(), {"Content-Type": "text/plain"}),
    (415, "POST", CHAT, body(), {}),
]


@pytest.mark.parametrize(
    ("status", "method", "path", "content", "headers"), BAD, ids=[f"{row[0]} {row[3][:40]!r}" for row in BAD]
)
async def test_bad_input(
    client: AsyncClient, status: int, method: str, path: str, content: bytes, headers: dict[str, str]
) -> None:
    response = await client.request(method, path, content=content, headers=headers)
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"].startswith("application/json")
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in response.text
    assert "/site-packages" not in response.text
    assert ".py" not in error["message"]


async def test_what_nobody_knows_is_no_mistake(client: AsyncClient) -> None:
    assert (await answer(client, CHAT, GOOD | {"foo": 1, "metadata": {"a": "b"}, "store": True}))["choices"]


async def test_after_all_that_it_is_well(client: AsyncClient) -> None:
    assert (await client.get("/health")).json()["status"] == "ok"
    assert (await answer(client, COMPLETIONS, ask("Hello", 2)))["choices"]
