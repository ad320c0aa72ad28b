"""Endpoints and errors, in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from scripted import MODEL, NoMetrics, ScriptedIntake, chat_body, finish

from reame.api.app import create_app
from reame.config import Config, SamplingConfig, ServerConfig
from reame.core.events import Delta, Finish, Usage
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


async def error_of(response: Any, status: int) -> dict[str, Any]:
    """The error object, after the checks that hold for every error."""
    assert response.status_code == status
    assert response.content_type == "application/json"
    body = json.loads(await response.get_data())
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    message = body["error"]["message"]
    assert message
    assert not any(sign in message for sign in ("Traceback", ".py", "/home", "/work", "/tmp", "\n"))
    return dict(body["error"])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, chat_body()),
        ("/chat/completions", chat_body()),
        ("/v1/chat/completions/", chat_body()),
        ("//v1//chat/completions", chat_body()),
        (TEXT, {"prompt": "hi"}),
        ("/completions/", {"prompt": "hi"}),
    ],
)
async def test_answers_under_every_spelling_of_the_path(client: TestClientProtocol, path: str, body: Any) -> None:
    response = await client.post(path, json=body)
    assert response.status_code == 200
    reply = await response.get_json()
    assert reply["model"] == MODEL
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert response.headers["X-Request-Id"] in reply["id"]


async def test_the_call_and_the_caller_reach_the_intake(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    await client.post(TEXT, json={"prompt": ["a", "b"], "n": 2, "max_tokens": 9, "stop": "x", "temperature": 0})
    call, key, namespace = intake.opened[0]
    assert (call.prompts, call.n, call.max_tokens, call.stop) == (("a", "b"), 2, 9, ("x",))
    assert (key, namespace) == ("", "")
    assert intake.left == 1


async def test_a_large_body_is_read_as_well(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    prompt = "word " * 50_000
    assert (await client.post(TEXT, json={"prompt": prompt})).status_code == 200
    assert intake.call.prompts == (prompt,)
    error = await error_of(await client.post(TEXT, json={"prompt": prompt, "n": "x"}), 400)
    assert error["param"] == "n"


async def test_configured_sampling_is_the_default(intake: ScriptedIntake) -> None:
    config = Config(sampling=SamplingConfig(temperature=0, top_p=0.5, repeat_last_n=9, max_tokens=7))
    client = create_app(config, intake, NoMetrics(), ()).test_client()
    await client.post(CHAT, json=chat_body())
    sampling = intake.call.sampling
    assert (sampling.temperature, sampling.top_p, sampling.repeat_last_n) == (0, 0.5, 9)
    assert intake.call.max_tokens is None
    for wanted, taken in ((1, 1), (0.01, 0.01), (1e-38, 0)):  # what would overflow is as good as none
        await client.post(CHAT, json=chat_body(temperature=wanted, max_tokens=None))
        assert intake.call.sampling.temperature == taken


@pytest.mark.parametrize("model", [MODEL, "", None])
async def test_model_names_that_answer(client: TestClientProtocol, model: str | None) -> None:
    response = await client.post(CHAT, json=chat_body(model=model))
    assert (await response.get_json())["model"] == MODEL


async def test_an_unknown_model(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    for path, body in ((CHAT, chat_body(model="gpt-3.5-turbo")), (TEXT, {"prompt": "x", "model": "gpt-3.5-turbo"})):
        error = await error_of(await client.post(path, json=body), 404)
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert MODEL in error["message"]
    assert (await error_of(await client.get("/v1/models/gpt-4"), 404))["code"] == "model_not_found"
    assert not intake.opened


async def test_models(client: TestClientProtocol) -> None:
    listed = await (await client.get("/v1/models")).get_json()
    assert listed["object"] == "list"
    (model,) = listed["data"]
    assert model == {
        "id": MODEL,
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "reame",
        "max_model_len": 512,
    }
    assert await (await client.get(f"/v1/models/{MODEL}")).get_json() == model


BENT: list[tuple[str, bytes, str | None]] = [
    (CHAT, b"", None),
    (CHAT, b"{", None),
    (CHAT, b"[]", None),
    (CHAT, b'{"messages":"\xff"}', None),
    (CHAT, b"{}", "messages"),
    (CHAT, b'{"messages":[]}', "messages"),
    (CHAT, b'{"messages":"x"}', "messages"),
    (CHAT, b'{"messages":[{"role":"foo","content":"x"}]}', "messages[0].role"),
    (CHAT, b'{"messages":[{"role":"user","content":"x"}],"temperature":"hot"}', "temperature"),
    (CHAT, b'{"messages":[{"role":"user","content":"x"}],"tools":[{}]}', "tools[0].type"),
    (TEXT, b"{}", "prompt"),
    (TEXT, b'{"prompt":[100]}', "prompt"),
    (TEXT, b'{"prompt":"x","logit_bias":{"100":1}}', "logit_bias"),
]


@pytest.mark.parametrize(("path", "raw", "param"), BENT)
async def test_bent_bodies(
    intake: ScriptedIntake, client: TestClientProtocol, path: str, raw: bytes, param: str | None
) -> None:
    response = await client.post(path, data=raw, headers={"Content-Type": "application/json"})
    error = await error_of(response, 400)
    assert error["param"] == param
    assert error["type"] == "invalid_request_error"
    assert not intake.opened


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
async def test_only_json_runs(intake: ScriptedIntake, client: TestClientProtocol, content_type: str) -> None:
    """A foreign page may post text/plain or nothing without asking first."""
    response = await client.post(CHAT, data=json.dumps(chat_body()), headers={"Content-Type": content_type})
    assert "application/json" in (await error_of(response, 415))["message"]
    assert not intake.opened


async def test_json_with_a_charset_runs(client: TestClientProtocol) -> None:
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert (await client.post(CHAT, data=json.dumps(chat_body()), headers=headers)).status_code == 200


async def test_a_body_above_the_limit(intake: ScriptedIntake) -> None:
    client = create_app(Config(server=ServerConfig(max_body_mb=1)), intake, NoMetrics(), ()).test_client()
    body = {"prompt": "x" * (1 << 20)}
    assert (await error_of(await client.post(TEXT, json=body), 413))["code"] == "request_too_large"
    assert not intake.opened


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", CHAT, "OPTIONS, POST"),
        ("DELETE", TEXT, "OPTIONS, POST"),
        ("POST", "/v1/models", "GET, HEAD, OPTIONS"),
        ("PUT", "/health", "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_wrong_method(client: TestClientProtocol, method: str, path: str, allowed: str) -> None:
    response = await client.open(path, method=method)
    await error_of(response, 405)
    assert response.headers["Allow"] == allowed


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/chat", "/nope", "/static/x", "/v1/files2", "/%00/../etc/passwd"])
async def test_an_unknown_path(client: TestClientProtocol, path: str) -> None:
    for method in ("GET", "POST"):
        error = await error_of(await client.open(path, method=method), 404)
        assert "/v1/chat/completions" in error["message"]


async def test_the_intake_refuses(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    intake.refusal = RequestError("the queue is full", status=429, code="queue_full", retry_after=2)
    for stream in (False, True):
        response = await client.post(CHAT, json=chat_body(stream=stream))
        error = await error_of(response, 429)
        assert (error["type"], error["code"]) == ("rate_limit_error", "queue_full")
        assert response.headers["Retry-After"] == "2"


async def test_an_answer_that_fails(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    error = RequestError("took too long", status=503, code="timeout", retry_after=5)
    failed = Finish(reason=None, usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1), error=error)
    intake.script = lambda _: [(0, Delta(text="a")), (0, failed)]
    response = await client.post(CHAT, json=chat_body())
    assert (await error_of(response, 503))["code"] == "timeout"
    assert intake.left == 1


async def test_a_bug_is_a_500_without_its_text(
    intake: ScriptedIntake, client: TestClientProtocol, caplog: pytest.LogCaptureFixture
) -> None:
    intake.script = lambda _: [(0, Delta(text="a")), RuntimeError("secret detail")]
    error = await error_of(await client.post(CHAT, json=chat_body()), 500)
    assert "secret" not in error["message"]
    assert intake.left == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "secret detail" in caplog.text


async def test_loading(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    intake.status, intake.detail, intake.model = "loading", "loading tiny: 40%", None
    intake.refusal = RequestError("not ready", status=503, code="server_loading", retry_after=5)
    health = await client.get("/health")
    assert health.status_code == 503
    assert health.headers["Retry-After"] == "5"
    assert (await health.get_json())["detail"] == "loading tiny: 40%"
    for response in (await client.get("/v1/models"), await client.post(CHAT, json=chat_body())):
        assert (await error_of(response, 503))["code"] == "server_loading"
        assert response.headers["Retry-After"] == "5"


async def test_health_when_ready(client: TestClientProtocol) -> None:
    response = await client.get("/health")
    assert response.status_code == 200
    assert await response.get_json() == {
        "status": "ok",
        "detail": "serving tiny",
        "model": MODEL,
        "slots": {"total": 4, "busy": 0, "background": 4},
        "queue": {"depth": 0, "oldest_wait_s": 0.0},
    }


async def test_metrics(client: TestClientProtocol) -> None:
    response = await client.get("/metrics")
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert await response.get_data() == NoMetrics().render()


async def test_n_reaches_every_choice(client: TestClientProtocol) -> None:
    response = await client.post(TEXT, json={"prompt": ["a", "b", "c"], "n": 2, "echo": True})
    choices = (await response.get_json())["choices"]
    assert [choice["text"] for choice in choices] == ["aHello"] * 2 + ["bHello"] * 2 + ["cHello"] * 2
    await error_of(await client.post(TEXT, json={"prompt": "a", "n": 16 + 64 + 1}), 400)


async def test_choices_that_finish_out_of_order(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    intake.script = lambda _: [(1, finish("length")), (0, Delta(text="a")), (0, finish())]
    choices = (await (await client.post(CHAT, json=chat_body(n=2))).get_json())["choices"]
    assert [(c["message"]["content"], c["finish_reason"]) for c in choices] == [("a", "stop"), ("", "length")]
