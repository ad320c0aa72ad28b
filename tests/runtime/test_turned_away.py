"""Who is turned away on entry is counted once, by the reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from serving import Serving, call_of, config_of, prompt_of, serving

from reame.errors import RequestError

if TYPE_CHECKING:
    import trio.testing


def counted(up: Serving) -> dict[str, float]:
    return {
        sample.labels["outcome"]: sample.value
        for metric in up.metrics.registry.collect()
        for sample in metric.samples
        if sample.name == "reame_requests_total"
    }


async def test_a_prompt_that_does_not_fit(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(config_of(context=20)) as up:
        with pytest.raises(RequestError, match="20 tokens"):
            await up.answer(call_of((1,) * 20))
        assert counted(up) == {"context_length_exceeded": 1}


async def test_more_choices_than_there_are_places(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(config_of(slots=1, queue=0)) as up:
        with pytest.raises(RequestError, match="at once"):
            await up.answer(call_of((1, 2), n=2))
        assert counted(up) == {"invalid": 1}


async def test_a_full_queue(autojump_clock: trio.testing.MockClock) -> None:
    async with serving(config_of(slots=1, queue=0)) as up:
        async with up.ask(call_of(prompt_of(5, 60), max_tokens=60)):
            with pytest.raises(RequestError, match="full"):
                await up.answer(call_of((1, 2)))
            assert counted(up) == {"refused": 1}
        assert counted(up) == {"refused": 1, "cancelled": 1}
