"""A disk that takes nothing: the loop hears of it, and nobody leaves the cells for its sake. One that hangs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
import trio
from serving import call_of, config_of, prompt_of, serving

from reame.memory.block_store import BlockStore
from reame.runtime.memory import Memory

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reame.runtime.kept import Found, Question

PROMPT = prompt_of(40, 4)


@pytest.mark.parametrize(("budget", "is_saved"), [(1, False), (1 << 24, True)])
async def test_what_the_disk_did_not_take_does_not_count_as_saved(tmp_path: Path, budget: int, is_saved: bool) -> None:
    store = BlockStore(tmp_path, fingerprint=b"f" * 16, budget_bytes=budget)
    memory = Memory(store, None, fingerprint=b"f" * 16, block_tokens=4, salt=b"", element_bytes=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        async with serving(config_of(residents=4), memory=memory) as up:
            await up.answer(call_of(PROMPT, max_tokens=4))
            with trio.fail_after(20):
                while not (memory.loses or store.stats().stored):
                    await trio.lowlevel.checkpoint()
            await up.answer(call_of(prompt_of(9, 9, first=1), max_tokens=1))
            scheduler = up.loop.scheduler
            (slot,) = (s for s in scheduler.admission.slots.slots if s.tokens[:40] == list(PROMPT))
            assert scheduler._capture.is_saved(slot) == is_saved
        memory.close()


async def test_a_disk_that_hangs_holds_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More look-ups than there are threads for them never come back: they are misses, and so are those behind them."""
    monkeypatch.setattr("reame.runtime.memory.LOOK_UP_S", 0.05)
    store = BlockStore(tmp_path, fingerprint=b"f" * 16, budget_bytes=1 << 24)
    memory = Memory(store, None, fingerprint=b"f" * 16, block_tokens=4, salt=b"", element_bytes=1)
    works = threading.Event()
    recalled = memory.kept.recalled

    def hanging(questions: Sequence[Question], namespace: str) -> list[Found]:
        works.wait(60)
        return recalled(questions, namespace)

    monkeypatch.setattr(memory.kept, "recalled", hanging)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(memory.run)
        async with serving(config_of(residents=4), memory=memory) as up:
            try:
                with trio.fail_after(20):
                    for first in range(4):
                        if first == 2:  # both threads hang: nobody waits for one
                            monkeypatch.setattr(memory._looking, "patience_s", 1e9)
                        answer = await up.answer(call_of(prompt_of(9, first), max_tokens=2))
                        assert answer.finishes[0].usage.completion_tokens == 2
            finally:
                works.set()
        memory.close()
