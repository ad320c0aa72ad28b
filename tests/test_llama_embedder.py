"""The embedder on the real small model: vectors mean something, pieces do not matter, other files are refused."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from reame.engine.llama import LlamaOptions
from reame.engine.llama_embedder import LlamaEmbedder
from reame.errors import ModelError
from reame.runtime.embeddings import COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

OPTIONS = LlamaOptions(num_cells=512, threads=2, prefill_threads=2)


@pytest.fixture(scope="module")
def embedder(model_path: Path) -> Iterator[LlamaEmbedder]:
    made = LlamaEmbedder(model_path, OPTIONS)
    yield made
    made.close()


def embed(embedder: LlamaEmbedder, text: str, *, piece: int = 128) -> NDArray[np.float32]:
    tokens = embedder.vocabulary.tokenize(text, add_special=True, parse_special=False)
    embedder.begin()
    for start in range(0, len(tokens), piece):
        embedder.feed(tokens[start : start + piece])
    return embedder.vector()


def test_alike_texts_have_alike_vectors(embedder: LlamaEmbedder) -> None:
    cat, kitten, money = (
        embed(embedder, text)
        for text in ("A cat sits on the mat.", "A kitten is sitting on a rug.", "Revenue grew by five percent.")
    )
    assert cat.shape == (embedder.size,)
    assert np.linalg.norm(cat) == pytest.approx(1, abs=1e-5)
    assert cat @ kitten > cat @ money + 0.1


def test_neither_what_came_before_nor_the_pieces_matter(embedder: LlamaEmbedder) -> None:
    text = " ".join(f"number {n}," for n in range(60))
    first = embed(embedder, text)
    embed(embedder, "something else")
    assert np.array_equal(embed(embedder, text), first)
    assert embed(embedder, text, piece=50) @ first > 0.999


def test_the_trial_in_a_child_process(model_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, str(model_path), json.dumps({"num_cells": 512, "threads": 2})],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == {}
    assert COMMAND[0] == sys.executable


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"no model")
    with pytest.raises(ModelError):
        LlamaEmbedder(tmp_path / "x.gguf", OPTIONS)
