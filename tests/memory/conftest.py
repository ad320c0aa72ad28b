"""Stores that are closed whatever happens to the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reame.memory.answers import AnswerStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., AnswerStore]]:
    """Stores on one database, closed at the end."""
    stores = []

    def open_one(budget: int = 1 << 20, **keywords: Callable[[], float]) -> AnswerStore:
        stores.append(AnswerStore(tmp_path / "memory" / "answers.sqlite", budget_bytes=budget, **keywords))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()
