"""Blocks that are read from a slow disk while the loop goes on: others are served, and no read keeps the loop alive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import trio
from serving import PacedThread, call_of, config_of, prompt_of, read, serving, text_of

from reame.config import Config, ModelConfig
from reame.core.cost import StepCost
from reame.core.request import Chat
from reame.engine.fake import FakeEngine
from reame.runtime.kept import Found, Question
from reame.runtime.memory import Memory
from reame.runtime.model import served_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.core.batch import Load
    from reame.core.blocks import Block


class EmptyPromises(Memory):
    """A disk that says it has everything, takes five seconds to look, and then has nothing."""

    def __init__(self) -> None:
        super().__init__(None, None, fingerprint=b"", block_tokens=0, salt=b"", element_bytes=1)
        self.block_tokens = 8
        self.num_reads = 0

    async def recall(self, questions: Sequence[Question], namespace: str) -> list[Found]:
        sizes = [len(asked.prompt) for asked in questions]
        return [Found(num_on_disk=size // 8 * 8 if size > 8 else 0) for size in sizes]

    async def read(self, load: Load) -> tuple[Block, ...]:
        self.num_reads += 1
        await trio.sleep(5)
        return ()


@pytest.fixture(autouse=True)
def a_slow_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake computes faster than any disk reads."""
    monkeypatch.setattr(StepCost, "pays_to_load", lambda self, tokens: True)


async def test_others_go_on_while_blocks_are_read_and_blocks_that_are_gone_are_computed(
    autojump_clock: trio.testing.MockClock,
) -> None:
    started = trio.current_time()
    slow, quick = prompt_of(50, 6), prompt_of(7, 6, first=2)
    async with serving(config_of(slots=2), memory=EmptyPromises()) as up, up.ask(call_of(slow, max_tokens=6)) as late:
        answer = await up.answer(call_of(quick, max_tokens=6))
        assert answer.texts == [text_of(quick, 6)]
        assert trio.current_time() == started
        assert (await read(late)).texts == [text_of(slow, 6)]
        assert trio.current_time() == started + 5
        assert up.num_rows == 7 + 5 + 50 + 5


async def test_a_client_that_leaves_while_its_blocks_are_read_costs_no_row(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with serving(config_of(slots=1), memory=EmptyPromises()) as up:
        async with up.ask(call_of(prompt_of(50, 1))):
            await trio.sleep(2)
        await up.idle()
        assert up.num_rows == 0


async def test_reads_that_nobody_waits_for_do_not_keep_the_loop_from_ending(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """While one decodes, seven come and go: more reads are on their way than there are slots when the intake closes."""
    memory = EmptyPromises()
    config = config_of(slots=2)
    async with serving(config, thread=PacedThread(0.1), memory=memory) as up:
        async with up.ask(call_of(prompt_of(4, 100), max_tokens=100)):
            for number in range(7):
                async with up.ask(call_of(prompt_of(50, 1, first=number))):
                    await trio.sleep(0.25)
        closed = trio.current_time()
    assert memory.num_reads == 7
    assert trio.current_time() < closed + 5


def test_a_chat_template_with_a_byte_order_mark_begins_behind_it(tmp_path: Path) -> None:
    file = tmp_path / "chat.jinja"
    file.write_text("{{ messages[0].content }}", "utf-8-sig")
    config = Config(model=ModelConfig(chat_template=str(file)))
    model = served_model(config, Path("fake.gguf"), "fake", FakeEngine())
    assert model.template is not None
    assert model.template.render(Chat(messages=({"role": "user", "content": "hi"},))) == "hi"
    assert model.constraints is not None
    model.constraints.close()
