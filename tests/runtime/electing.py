"""Candidates of the fake engine that say what a test wants them to."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve
from serving import config_of, prompt_of, serving

from reame.core.request import Call, Sampling
from reame.core.vote import Conclave, Verdict
from reame.runtime.memory import Memory
from reame.runtime.prompts import seeded

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from serving import Serving

    from reame.core.events import Finish
    from reame.engine.fake import FakeSampler
    from reame.memory.answers import AnswerStore

PROMPT = prompt_of(40, 40)
SEED = 7
WARM = Sampling(temperature=0.8, seed=SEED)


def call_of(size: int = 5, *, margin: float | None = None, **fields: Any) -> Call:
    conclave = Conclave(size=size, vote="choice", margin=margin)
    call = Call(prompts=(PROMPT,), sampling=WARM, max_tokens=60, conclave=conclave)
    return evolve(call, **fields)


def speak(up: Serving, *texts: str, prompt: tuple[int, ...] = PROMPT, sampling: Sampling = WARM) -> None:
    """Candidate i says `texts[i]`, letters from a to g; "!" at the end: it never ends."""
    say = {seeded(sampling, index).seed: text for index, text in enumerate(texts)}

    def sample(row: int, sampler: FakeSampler) -> int:
        text = say[sampler.sampling.seed]
        position = len(sampler.drawn)
        ends = position >= len(text) and not text.endswith("!")
        letter = text[min(position, len(text) - 1)].replace("!", "g").encode()
        token = 0 if ends else up.engine.vocabulary.ALPHABET.index(letter)
        sampler.drawn.append(token)
        return token

    up.engine.sample = sample  # type: ignore[method-assign, assignment]


def begin(up: Serving, wave: int) -> None:
    """So many candidates begin, however long steps take."""
    up.loop.wave = lambda size: wave  # type: ignore[method-assign]


@asynccontextmanager
async def remembering(store: AnswerStore, *texts: str) -> AsyncIterator[Serving]:
    """Candidates say these texts, or what the engine draws. All that is to be kept is written when the block ends."""
    memory = Memory(None, store, fingerprint=b"f" * 16, block_tokens=0, salt=b"s", element_bytes=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        async with serving(config_of(slots=8), memory=memory) as up:
            if texts:
                speak(up, *texts)
            yield up
        memory.close()


async def elected(up: Serving, call: Call, *, key: str = "") -> tuple[str, Finish, Verdict]:
    answer = await up.answer(call, key=key)
    (text,), (finish,) = answer.texts, answer.finishes
    assert finish.verdict is not None
    return text, finish, finish.verdict
