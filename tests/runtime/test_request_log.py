"""One line for each call: what it cost, never what it said."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.lowlevel
from attrs import evolve
from electing import remembering
from serving import call_of, config_of, prompt_of, serving

from reame.core.request import Call, Sampling
from reame.memory.answers import AnswerStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Lines = "Callable[[], list[dict[str, Any]]]"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[[], list[dict[str, Any]]]:
    """The fields of the request lines so far."""
    caplog.set_level(logging.DEBUG)
    return lambda: [record.__dict__["fields"] for record in caplog.records if record.name == "reame.requests"]


async def test_a_call_is_one_line_of_numbers(
    autojump_clock: trio.testing.MockClock, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    prompt = prompt_of(20, 5)
    async with serving(config_of()) as up:
        async with up.ask(call_of(prompt, n=2, max_tokens=5), key="office") as replies:
            async for _ in replies:
                pass
        request_id = replies.request_id
    (line,) = lines()
    assert (line["id"], line["key"], line["outcome"], line["choices"]) == (request_id, "office", "ok", 2)
    assert (line["prompt"], line["cached"], line["tokens"]) == (20, 0, 10)
    assert {"queued_ms", "first_ms", "decode_ms"} <= set(line)


async def test_a_prompt_of_an_old_answer_and_a_new_one_was_computed(
    lines: Callable[[], list[dict[str, Any]]], tmp_path: Path
) -> None:
    one = evolve(call_of(prompt_of(20, 5), max_tokens=5), sampling=Sampling(seed=3, temperature=1.0))
    store = AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)
    async with remembering(store) as up:
        await up.answer(one)
    async with remembering(store) as up:
        both = await up.answer(evolve(one, n=2))
    assert [finish.stored for finish in both.finishes] == [True, False]
    assert [finish.usage.cached_tokens for finish in both.finishes] == [20, 0]
    assert [line["cached"] for line in lines()] == [0, 0]


async def test_nothing_that_was_said_is_in_any_record(
    autojump_clock: trio.testing.MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "mysecretmedicalhistory"
    async with serving(config_of()) as up:
        answer = await up.answer(Call(prompts=(secret,), sampling=Sampling(seed=2), max_tokens=40, stop=("zz",)))
        async with up.ask(Call(prompts=(secret,), max_tokens=40)):
            await trio.lowlevel.checkpoint()
    assert len(answer.texts[0]) > 10
    everything = "\n".join(f"{record.getMessage()} {record.__dict__}" for record in caplog.records)
    assert "prompt" in everything
    for said in (secret, answer.texts[0], str(list(secret.encode())), "zz"):
        assert said not in everything


async def test_a_call_that_was_left_says_so(
    autojump_clock: trio.testing.MockClock, lines: Callable[[], list[dict[str, Any]]]
) -> None:
    async with serving(config_of()) as up, up.ask(call_of(prompt_of(5, 50), max_tokens=50)):
        await trio.lowlevel.checkpoint()
    assert [line["outcome"] for line in lines()] == ["cancelled"]
