"""Files and batches with OpenAI's own client against a real daemon on the real model."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import trio
from daemon_process import PATIENCE_S
from openai import APIStatusError, AsyncOpenAI, BadRequestError, NotFoundError, PermissionDeniedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess
    from openai.types import Batch

CHAT = "/v1/chat/completions"
KEYS = {"ann": "secret-of-ann", "bob": "secret-of-bob"}


@pytest.fixture(scope="module")
def keyed(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaemonProcess]:
    """Two keys, and little room for files."""
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "keys").write_text("".join(f"{name}:{key}\n" for name, key in KEYS.items()))
    (folder / "keys").chmod(0o600)
    with launch(
        engine={"slots": 4, "context": 1024},
        server={"api_keys_file": str(folder / "keys")},
        batch={"path": str(folder / "batches"), "file_mb": 1, "room_mb": 2},
    ) as daemon:
        yield daemon.wait_ready()


def client_of(daemon: DaemonProcess, name: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{daemon.url}/v1", api_key=KEYS.get(name, "none"), max_retries=0, timeout=PATIENCE_S)


@pytest.fixture
async def ann(keyed: DaemonProcess) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(keyed, "ann") as client:
        yield client


@pytest.fixture
async def bob(keyed: DaemonProcess) -> AsyncIterator[AsyncOpenAI]:
    async with client_of(keyed, "bob") as client:
        yield client


def line_of(name: str, text: str, max_tokens: int = 4, **more: Any) -> str:
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0, "max_tokens": max_tokens} | more
    return json.dumps({"custom_id": name, "method": "POST", "url": CHAT, "body": body})


async def upload(client: AsyncOpenAI, *lines: str) -> str:
    data = "\n".join(lines).encode()
    return (await client.files.create(file=("lines.jsonl", data), purpose="batch")).id


async def order(client: AsyncOpenAI, *lines: str) -> Batch:
    name = await upload(client, *lines)
    return await client.batches.create(input_file_id=name, endpoint=CHAT, completion_window="24h")


async def over(client: AsyncOpenAI, batch: Batch) -> Batch:
    """Asks until it is over."""
    with trio.fail_after(PATIENCE_S):
        while batch.status in ("validating", "in_progress", "finalizing", "cancelling"):
            await trio.sleep(0.05)
            batch = await client.batches.retrieve(batch.id)
    return batch


async def lines_of(client: AsyncOpenAI, name: str | None) -> list[dict[str, Any]]:
    assert name is not None
    text = (await client.files.content(name)).text
    return [json.loads(line) for line in text.splitlines()]


async def test_from_a_file_to_its_answers_and_errors(ann: AsyncOpenAI) -> None:
    lines = [
        line_of("one", "Say one."), "{", line_of("two", "Say two."), line_of("one", "again"),
        line_of("long", "far " * 3000), line_of("hot", "x", temperature=9), line_of("other", "x", model="gpt-4o"),
    ]  # fmt: skip
    ordered = await order(ann, *lines)
    assert (ordered.status, ordered.endpoint) == ("validating", CHAT)
    batch = await over(ann, ordered)
    assert batch.status == "completed"
    assert batch.completed_at
    assert batch.request_counts
    assert batch.request_counts.model_dump() == {"total": 7, "completed": 2, "failed": 5}
    good = await lines_of(ann, batch.output_file_id)
    assert [line["custom_id"] for line in good] == ["one", "two"]
    plain = await ann.chat.completions.create(
        model="", messages=[{"role": "user", "content": "Say two."}], temperature=0, max_tokens=4
    )
    assert good[1]["response"]["body"]["choices"][0]["message"]["content"] == plain.choices[0].message.content
    bad = await lines_of(ann, batch.error_file_id)
    assert [(line["custom_id"], line["response"]["status_code"]) for line in bad] == [
        (None, 400), ("one", 400), ("long", 400), ("hot", 400), ("other", 404),
    ]  # fmt: skip
    codes = [line["error"]["code"] for line in bad]
    assert codes[:3] == ["invalid_line", "duplicate_custom_id", "context_length_exceeded"]


async def test_files_are_listed_told_given_back_and_deleted(ann: AsyncOpenAI) -> None:
    text = line_of("a", "hi")
    name = await upload(ann, text)
    told = await ann.files.retrieve(name)
    assert (told.bytes, told.filename, told.purpose, told.object) == (len(text), "lines.jsonl", "batch", "file")
    assert told.expires_at
    assert (await ann.files.content(name)).content == text.encode()
    assert name in [file.id async for file in ann.files.list(limit=1)]
    assert (await ann.files.delete(name)).deleted
    with pytest.raises(NotFoundError):
        await ann.files.content(name)


async def test_batches_are_listed_newest_first_page_by_page(ann: AsyncOpenAI) -> None:
    made = [await over(ann, await order(ann, line_of("a", "hi", 1))) for _ in range(3)]
    seen = [batch.id async for batch in ann.batches.list(limit=2)]
    assert [name for name in seen if name in {batch.id for batch in made}] == [batch.id for batch in reversed(made)]


async def test_a_key_sees_nothing_of_anothers(ann: AsyncOpenAI, bob: AsyncOpenAI) -> None:
    batch = await over(ann, await order(ann, line_of("a", "hi", 1)))
    assert batch.output_file_id
    for name in (batch.input_file_id, batch.output_file_id):
        for ask in (bob.files.retrieve, bob.files.content, bob.files.delete):
            with pytest.raises(NotFoundError):
                await ask(name)
    for ask_batch in (bob.batches.retrieve, bob.batches.cancel):
        with pytest.raises(NotFoundError):
            await ask_batch(batch.id)
    with pytest.raises(NotFoundError):
        await bob.batches.create(input_file_id=batch.input_file_id, endpoint=CHAT, completion_window="24h")
    assert [file.id async for file in bob.files.list()] == []
    assert [each.id async for each in bob.batches.list()] == []


async def test_a_batch_that_is_cancelled_keeps_what_is_done(ann: AsyncOpenAI) -> None:
    lines = [line_of(f"n{i}", f"Count to {i}.", 60, logit_bias={"0": -100, "2": -100}) for i in range(40)]
    batch = await order(ann, line_of("first", "hi", 1), *lines)
    with trio.fail_after(PATIENCE_S):
        while not (batch.request_counts and batch.request_counts.completed):
            batch = await ann.batches.retrieve(batch.id)
    with pytest.raises(BadRequestError, match="still needs this file"):
        await ann.files.delete(batch.input_file_id)
    batch = await over(ann, await ann.batches.cancel(batch.id))
    assert batch.status == "cancelled"
    assert batch.request_counts
    done = await lines_of(ann, batch.output_file_id)
    assert 0 < len(done) == batch.request_counts.completed < 41


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"endpoint": "/v1/embeddings"}, "endpoint"),
        ({"completion_window": "soon"}, "completion_window"),
        ({"metadata": {"a": 1}}, "metadata"),
        ({"input_file_id": None}, "input_file_id"),
    ],
)
async def test_a_wrong_order_is_refused_by_the_field(ann: AsyncOpenAI, body: dict[str, Any], param: str) -> None:
    whole = {"input_file_id": "file-0", "endpoint": CHAT, "completion_window": "24h"} | body
    with pytest.raises(BadRequestError) as caught:
        await ann.post("/batches", body=whole, cast_to=httpx2.Response)
    assert caught.value.param == param


async def test_an_empty_file_is_a_failed_batch_that_says_so(ann: AsyncOpenAI) -> None:
    batch = await over(ann, await order(ann, "\n"))
    assert batch.status == "failed"
    assert batch.errors
    assert batch.errors.data
    assert batch.errors.data[0].code == "empty_file"


async def test_files_are_bounded(bob: AsyncOpenAI) -> None:
    with pytest.raises(APIStatusError, match=r"larger than 1 MiB|too large"):
        await upload(bob, "x" * (3 << 19))
    names = [await upload(bob, "x" * 900_000) for _ in range(2)]
    with pytest.raises(BadRequestError, match="room_mb"):
        await upload(bob, "x" * 900_000)
    for name in names:
        await bob.files.delete(name)
    with pytest.raises(BadRequestError, match="purpose"):
        await bob.files.create(file=("x", b"x"), purpose="assistants")


async def test_a_web_page_cannot_upload_behind_a_persons_back(keyed: DaemonProcess, ann: AsyncOpenAI) -> None:
    with pytest.raises(PermissionDeniedError):
        await ann.with_options(default_headers={"Origin": "https://evil.example"}).files.create(
            file=("x", b"x"), purpose="batch"
        )


async def test_a_restart_goes_on_where_it_was(launch: Launch, tmp_path: Path) -> None:
    """SIGTERM in the middle of a batch ends the daemon at once; the next one finishes the batch."""
    tables: dict[str, dict[str, object]] = {
        "engine": {"slots": 2, "context": 1024}, "batch": {"path": str(tmp_path / "batches")},
    }  # fmt: skip
    lines = [line_of(f"n{i}", f"Write about the number {i}.", 16, logit_bias={"0": -100, "2": -100}) for i in range(16)]
    with launch(**tables) as daemon:
        daemon.wait_ready()
        async with client_of(daemon, "") as client:
            batch = await order(client, *lines)
            with trio.fail_after(PATIENCE_S):
                while not (batch.request_counts and batch.request_counts.completed):
                    batch = await client.batches.retrieve(batch.id)
        daemon.send(signal.SIGTERM)
        assert daemon.wait_exit() == 0
    with launch(**tables) as daemon:
        daemon.wait_ready()
        async with client_of(daemon, "") as client:
            batch = await over(client, await client.batches.retrieve(batch.id))
            assert batch.status == "completed"
            done = await lines_of(client, batch.output_file_id)
            assert [line["custom_id"] for line in done] == [f"n{i}" for i in range(16)]
