"""What a daemon tells its operator: metrics that agree with what was asked, a line of log for each request, and nowhere
a prompt, an answer, a key or a path. It listens everywhere, has two keys, and speaks German."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families
from streams import stream, streaming
from talking import CHAT, COMPLETIONS, ENDLESS, answer, ask, connect, readings, say, until_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess
    from httpx2 import AsyncClient

ALICE, BOB = "sk-alice-0f3b9d71", "sk-bob-77aa01"
CANARY = "xylophonist"


@contextmanager
def started(launch: Launch, folder: Path) -> Iterator[DaemonProcess]:
    keys = folder / "keys"
    keys.write_text(f"alice:{ALICE}\nbob:{BOB}\n")
    keys.chmod(0o600)
    server: dict[str, object] = {"host": "0.0.0.0", "api_keys_file": str(keys)}
    engine: dict[str, object] = {"slots": 4, "context": 256}
    environ = {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"}
    with launch(environ, server=server, engine=engine, log={"level": "debug"}) as daemon:
        yield daemon.wait_ready()


@pytest.fixture(scope="module")
def shared(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """For tests that count nothing from the start."""
    with started(launch, tmp_path_factory.mktemp("shared")) as daemon:
        yield daemon


@pytest.fixture
def daemon(launch: Launch, tmp_path: Path) -> Iterator[DaemonProcess]:
    """One that nobody has asked anything."""
    with started(launch, tmp_path) as fresh:
        yield fresh


@pytest.fixture
async def client(daemon: DaemonProcess) -> AsyncIterator[AsyncClient]:
    async with connect(daemon, ALICE) as opened:
        yield opened


async def spend(client: AsyncClient) -> list[dict[str, Any]]:
    """Cold, warm, streamed, four at once, two prompts; their usages."""
    chat, text = say(f"Who is the {CANARY}?", 5), ask([f"The {CANARY} and", "Where is"], 3, logit_bias=ENDLESS)
    told = await stream(client, CHAT, chat | {"stream_options": {"include_usage": True}})
    whole = [await answer(client, CHAT, chat | more) for more in ({}, {"n": 4}, {"temperature": 1, "n": 2})]
    return [told.events[-1]["usage"], *(each["usage"] for each in [*whole, await answer(client, COMPLETIONS, text)])]


async def test_the_counters_agree_with_the_clients(daemon: DaemonProcess, client: AsyncClient) -> None:
    usages = await spend(client)
    seen = await until_idle(client)
    assert seen.outcomes() == {"ok": 5}
    assert seen["prompt_tokens_total"] == sum(usage["prompt_tokens"] for usage in usages)
    assert seen["generated_tokens_total"] == sum(usage["completion_tokens"] for usage in usages)
    cached = [usage["prompt_tokens_details"]["cached_tokens"] for usage in usages]
    assert seen["cached_tokens_total"] == sum(cached)
    assert cached[0] == 0
    assert 0 < cached[1] < usages[1]["prompt_tokens"]
    assert seen["first_token_seconds_count"] == 5
    assert seen["rows_total"] >= seen["generated_tokens_total"]
    assert seen['threads{rows="one"}'] >= 1
    assert seen['threads{rows="more"}'] >= 1

    too_long = await client.post(COMPLETIONS, json=ask("word " * 300))
    assert too_long.status_code == 400
    async with streaming(client, COMPLETIONS, ask("And", 200, logit_bias=ENDLESS)) as left:
        assert await left.piece()
    await trio.to_thread.run_sync(daemon.wait_for, "INFO request .*outcome=cancelled")
    after = await until_idle(client)
    assert Counter(after.outcomes()) - Counter(seen.outcomes()) == Counter(cancelled=1, context_length_exceeded=1)
    assert all(value >= seen[name] for name, value in after.items() if name.endswith(("_total", "_count", "_sum")))


async def test_metrics_parse_whatever_the_locale(shared: DaemonProcess) -> None:
    async with connect(shared, ALICE) as client:
        await answer(client, CHAT, say("Hello", 2))
        response = await client.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(response.text))
    assert len(families) > 12
    assert all(family.documentation and family.type != "unknown" for family in families)
    assert len({sample.name for family in families for sample in family.samples}) >= len(families)


async def test_the_log_has_a_line_for_each_request_and_no_secrets(daemon: DaemonProcess, client: AsyncClient) -> None:
    usages = await spend(client)
    async with connect(daemon, BOB) as bob:
        body = say(f"Who is the {CANARY}?", 8, stop=[CANARY * 2], user=CANARY, logit_bias=ENDLESS)
        said = (await answer(bob, CHAT, body))["choices"][0]["message"]["content"].strip()
        assert len(said) > 10
        assert (await bob.post(CHAT, json=body | {"temperature": CANARY})).status_code == 400
        assert (await bob.get(f"/{CANARY}")).status_code == 404
    lines = daemon.requests(6)
    assert [line["key"] for line in lines] == ["alice"] * 5 + ["bob"]
    assert [int(line["prompt"]) for line in lines[:5]] == [usage["prompt_tokens"] for usage in usages]
    assert [int(line["tokens"]) for line in lines[:5]] == [usage["completion_tokens"] for usage in usages]
    assert [line["choices"] for line in lines] == ["1", "1", "4", "2", "2", "1"]
    assert len({line["id"] for line in lines}) == 6
    assert sum("INFO request " in line for line in daemon.log.splitlines()) == 6
    for secret in (CANARY, ALICE, BOB, said):
        assert secret not in daemon.log


async def test_nobody_without_a_key(shared: DaemonProcess) -> None:
    async with connect(shared, BOB) as bob:
        before = Counter((await readings(bob)).outcomes())
    for key in ("", "sk-alice", ALICE.upper()):
        async with connect(shared, key) as stranger:
            for response in (
                await stranger.post(CHAT, json=say("Hello")),
                await stranger.get("/v1/models"),
                await stranger.get("/metrics"),
            ):
                assert response.status_code == 401
                assert response.json()["error"]["code"] == "invalid_api_key"
            assert (await stranger.get("/health")).status_code == 200
    async with connect(shared, BOB) as bob:
        more = Counter((await readings(bob)).outcomes()) - before
    assert set(more) <= {"ok"}, "who is refused has not called; an earlier test's call may just have been counted"


async def test_no_path_is_told(shared: DaemonProcess, model_path: Path) -> None:
    async with connect(shared, ALICE) as client:
        listed = (await client.get("/v1/models")).json()
        assert listed["object"] == "list"
        (model,) = listed["data"]
        assert model["id"] == "smollm2-135m"
        told: list[Any] = [listed, (await client.get(f"/v1/models/{model['id']}")).json()]
        for name in (model["id"], "", None):
            found = await answer(client, CHAT, say("Hi", 1, model=name))
            assert found["model"] == model["id"]
            told.append(found)
        unknown = await client.post(CHAT, json=say("Hi", 1, model="gpt-3.5-turbo"))
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "model_not_found")
        told += [unknown.json(), (await client.get("/health")).json(), (await client.get("/metrics")).text]
    assert str(model_path.parent) not in json.dumps(told)
    assert ".gguf" not in json.dumps(told)
