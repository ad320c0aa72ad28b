"""Who may ask: callers with keys, and pages of other origins, in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from scripted import NoMetrics, ScriptedIntake, chat_body
from test_endpoints import CHAT, TEXT, error_of

from reame.api.app import create_app
from reame.config import Config, ServerConfig
from reame.config_keys import ApiKey

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol

KEYS = (ApiKey("ann", "sk-one"), ApiKey("bob", "sk-two"))


@pytest.fixture
def locked(intake: ScriptedIntake) -> TestClientProtocol:
    return create_app(Config(), intake, NoMetrics(), KEYS).test_client()


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer sk-three", "sk-one", "Basic sk-one", "Bearer sk-one sk-two", "Bearer \xff"],
)
@pytest.mark.parametrize("path", [CHAT, TEXT, "/v1/models", "/metrics", "/nope"])
async def test_a_key_is_needed(
    intake: ScriptedIntake, locked: TestClientProtocol, header: str | None, path: str
) -> None:
    headers = {} if header is None else {"Authorization": header}
    response = await locked.post(path, json=chat_body(), headers=headers)
    error = await error_of(response, 401)
    assert error["code"] == "invalid_api_key"
    assert "sk-" not in error["message"]
    assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert not intake.opened


@pytest.mark.parametrize(("secret", "name"), [("sk-one", "ann"), ("sk-two", "bob")])
@pytest.mark.parametrize("scheme", ["Bearer", "bearer"])
async def test_a_key_names_its_caller(
    intake: ScriptedIntake, locked: TestClientProtocol, scheme: str, secret: str, name: str
) -> None:
    response = await locked.post(CHAT, json=chat_body(), headers={"Authorization": f"{scheme} {secret}"})
    assert response.status_code == 200
    assert intake.opened[0][1:] == (name, name)


async def test_health_needs_no_key(locked: TestClientProtocol) -> None:
    assert (await locked.get("/health")).status_code == 200


OK = "http://ok.example"
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
}


def cors_client(intake: ScriptedIntake, *origins: str) -> TestClientProtocol:
    return create_app(Config(server=ServerConfig(cors_origins=origins)), intake, NoMetrics(), KEYS).test_client()


async def test_a_preflight_of_a_named_page_needs_no_key(intake: ScriptedIntake) -> None:
    client = cors_client(intake, OK)
    response = await client.options(CHAT, headers={"Origin": OK, **PREFLIGHT})
    assert response.status_code == 204
    assert response.headers["Access-Control-Allow-Origin"] == OK
    assert "POST" in response.headers["Access-Control-Allow-Methods"]
    assert "authorization" in response.headers["Access-Control-Allow-Headers"]
    assert response.headers["Vary"] == "Origin"


async def test_named_pages_can_read_streams_and_errors(intake: ScriptedIntake) -> None:
    client = cors_client(intake, OK)
    key = {"Authorization": "Bearer sk-one"}
    for path, headers, status in ((CHAT, key, 200), (CHAT, {}, 401), ("/nope", key, 404)):
        response = await client.post(path, json=chat_body(stream=True), headers={"Origin": OK, **headers})
        assert response.status_code == status
        assert response.headers["Access-Control-Allow-Origin"] == OK


@pytest.mark.parametrize("origins", [(), (OK,)])
@pytest.mark.parametrize("origin", ["http://evil.example", "http://ok.example.evil", "null", "http://OK.example:80"])
async def test_other_pages_get_nothing(intake: ScriptedIntake, origins: tuple[str, ...], origin: str) -> None:
    client = cors_client(intake, *origins)
    key = {"Authorization": "Bearer sk-one"}
    answers = [
        await client.options(CHAT, headers={"Origin": origin, **PREFLIGHT}),
        await client.post(CHAT, json=chat_body(), headers={"Origin": origin, **key}),
        await client.post(CHAT, json=chat_body(), headers=key),
    ]
    for response in answers:
        assert not [name for name, _ in response.headers if name.lower().startswith("access-control")]


async def test_every_page_may_be_allowed(intake: ScriptedIntake) -> None:
    client = cors_client(intake, "*")
    response = await client.get("/health", headers={"Origin": "http://any.example"})
    assert response.headers["Access-Control-Allow-Origin"] == "http://any.example"


@pytest.mark.parametrize(
    ("host", "names", "is_served"),
    [
        ("127.0.0.1:8080", (), True),
        ("localhost", (), True),
        ("LOCALHOST:9", (), True),
        ("app.localhost:8080", (), True),
        ("[::1]:8080", (), True),
        ("192.168.1.7:8080", (), True),  # an address needs no name to be resolved
        ("evil.example:8080", (), False),
        ("localhost.evil.example", (), False),
        ("127.0.0.1.evil.example", (), False),
        ("llm.example.org", ("llm.example.org",), True),
        ("LLM.example.org.:443", ("llm.example.org",), True),
        ("other.example.org", ("llm.example.org",), False),
        ("ok.example", (), True),  # one of the pages that may call
        ("anything", ("*",), True),
    ],
)
async def test_without_keys_only_this_machines_names_are_answered(
    intake: ScriptedIntake, host: str, names: tuple[str, ...], is_served: bool
) -> None:
    """A page whose own name was made to resolve to this machine is foreign all the same."""
    config = Config(server=ServerConfig(names=names, cors_origins=(OK,)))
    client = create_app(config, intake, NoMetrics(), ()).test_client()
    for response in (
        await client.post(CHAT, json=chat_body(), headers={"Host": host, "Origin": f"http://{host}"}),
        await client.get("/v1/models", headers={"Host": host, "Accept-Language": "en"}),
        await client.get("/v1/models", headers={"Host": host, "User-Agent": "Mozilla/5.0 (X11)"}),
    ):
        if is_served:
            assert response.status_code == 200
        else:
            error = await error_of(response, 403)
            assert (error["code"], "server.names" in error["message"]) == ("foreign_host", True)
    assert len(intake.opened) == is_served


async def test_a_program_may_call_it_what_it_likes(intake: ScriptedIntake) -> None:
    client = create_app(Config(), intake, NoMetrics(), ()).test_client()
    headers = {"Host": "llm.example.org", "User-Agent": "OpenAI/Python"}
    assert (await client.post(CHAT, json=chat_body(), headers=headers)).status_code == 200


async def test_nodes_fetch_is_a_program_and_a_browser_is_none(intake: ScriptedIntake) -> None:
    client = create_app(Config(), intake, NoMetrics(), ()).test_client()
    node = {"Host": "llm.example.org", "Accept-Language": "*", "Sec-Fetch-Mode": "cors", "User-Agent": "node"}
    assert (await client.post(CHAT, json=chat_body(), headers=node)).status_code == 200
    for sign in ({"Sec-Fetch-Site": "same-origin"}, {"Accept-Language": "en"}, {"User-Agent": "Mozilla/5.0"}):
        await error_of(await client.post(CHAT, json=chat_body(), headers=node | sign), 403)
    del node["Sec-Fetch-Mode"]  # a page may ask for any language
    await error_of(await client.post(CHAT, json=chat_body(), headers=node), 403)


async def test_denos_fetch_is_a_program_and_a_page_that_says_so_is_none(intake: ScriptedIntake) -> None:
    client = create_app(Config(), intake, NoMetrics(), ()).test_client()
    deno = {"Host": "llm.example.org", "Accept-Language": "*", "User-Agent": "Deno/2.1.4", "Accept-Encoding": "gzip,br"}
    assert (await client.post(CHAT, json=chat_body(), headers=deno)).status_code == 200
    for sign in (
        *({"Accept-Encoding": each} for each in ("gzip, deflate", "gzip, deflate, br, zstd", "identity", "")),
        *({"Origin": "http://llm.example.org"}, {"Accept-Language": "en"}, {"User-Agent": "Mozilla/5.0"}),
    ):
        await error_of(await client.post(CHAT, json=chat_body(), headers=deno | sign), 403)


async def test_with_keys_any_name_will_do(intake: ScriptedIntake, locked: TestClientProtocol) -> None:
    headers = {"Host": "llm.example.org", "Authorization": "Bearer sk-one"}
    assert (await locked.post(CHAT, json=chat_body(), headers=headers)).status_code == 200


async def test_a_page_cannot_cancel_a_batch_by_a_plain_post(intake: ScriptedIntake) -> None:
    client = create_app(Config(), intake, NoMetrics(), ()).test_client()
    path = f"/v1/batches/batch_{'0' * 32}/cancel"
    response = await client.post(path, headers={"Origin": "http://evil.example", "Content-Type": "text/plain"})
    assert (await error_of(response, 403))["code"] == "foreign_origin"
    await error_of(await client.post(path), 404)
