"""The metrics that README.md names are those that there are."""

from __future__ import annotations

import re
from pathlib import Path

from reame.core.limits import Limits
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.memory.answers import AnswerStore
from reame.memory.archive import Archive
from reame.memory.block_store import BlockStore
from reame.runtime.memory import Memory
from reame.runtime.metrics import Metrics

README = Path(__file__).parents[2] / "README.md"


async def test_readme_names_every_metric_and_no_other(tmp_path: Path) -> None:
    metrics = Metrics()
    limits = Limits(max_running=1, max_rows=4)
    scheduler = Scheduler(Slots(8, 2), limits, piece=lambda token: b"", eog_tokens=frozenset())
    metrics.watch_loop(scheduler)
    store = BlockStore(tmp_path / "blocks", fingerprint=b"f" * 16, budget_bytes=1 << 20)
    answers = AnswerStore(tmp_path / "answers.sqlite", budget_bytes=1 << 20)
    memory = Memory(store, answers, fingerprint=b"f" * 16, block_tokens=4, salt=b"", element_bytes=1)
    memory.kept.archive = Archive(tmp_path / "archive", fingerprint=b"f" * 32, vocab_size=9, budget_bytes=1 << 20)
    metrics.watch(memory)
    metrics.requests.labels("ok").inc()
    metrics.refresh()
    shown = set(re.findall(r"^# TYPE (\w+) ", metrics.render().decode(), re.MULTILINE))
    shown = {name for name in shown if not name.endswith("_created")}
    section = README.read_text("utf-8").split("## Metrics")[1].split("\n## ")[0]
    named = set(re.findall(r"`(reame_\w+)", section))
    assert named == shown
