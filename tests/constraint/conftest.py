"""The real small model's vocabulary, and constraints compiled for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reame.constraint.compiler import ConstraintCompiler
from reame.constraint.tokens import tokens_of
from reame.engine.llama import LlamaEngine, LlamaOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reame.constraint.tokens import Tokens
    from reame.engine.base import Vocabulary


@pytest.fixture(scope="session")
def engine(model_path: Path) -> Iterator[LlamaEngine]:
    engine = LlamaEngine(model_path, LlamaOptions(num_cells=64, num_seqs=1, max_rows=8, threads=1))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def vocabulary(engine: LlamaEngine) -> Vocabulary:
    return engine.vocabulary


@pytest.fixture(scope="session")
def tokens(engine: LlamaEngine) -> Tokens:
    return tokens_of(engine.vocabulary, engine.info.vocab_size, engine.info.eog_tokens)


@pytest.fixture(scope="session")
def compiler(tokens: Tokens) -> Iterator[ConstraintCompiler]:
    compiler = ConstraintCompiler(lambda: tokens)
    yield compiler
    compiler.close()
