"""Drafts of every source, alone and together, for one user and for four, free and under a schema, whose first tokens
are forced before or after the prompt is computed: all give the text of plain decoding. The long form is
`tests/drill/drafts.py`."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from draft_matrix import SOURCES, Matrix, Told, open_archive, requests

from reame.core.request import Request, Sampling
from reame.engine.base import Row
from reame.engine.drawing import Drawing
from reame.engine.llama import LlamaEngine, LlamaOptions

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from reame.engine.base import Engine

COUNT = 4
ANSWER = 24


@pytest.fixture(scope="module")
def engine(model_path: Path) -> Iterator[Engine]:
    options = LlamaOptions(num_cells=2048, num_seqs=8, max_rows=128, threads=2, prefill_threads=2)
    engine = LlamaEngine(model_path, options)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def matrix(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Matrix]:
    made = Matrix(engine, open_archive(engine, tmp_path_factory.mktemp("archive")))
    yield made
    made.close()


@pytest.fixture(scope="module")
def asked(engine: Engine) -> list[Request]:
    return requests(engine, COUNT, ANSWER)


@pytest.fixture(scope="module")
def plain(matrix: Matrix, asked: list[Request]) -> dict[str, Told]:
    """Without drafts, one after the other; what came is archived."""
    return matrix.run(asked, (), 1, keep=True)


@pytest.mark.parametrize(
    ("names", "users"), [*(((name,), 4) for name in SOURCES), (SOURCES, 1), (SOURCES, 4)], ids=str
)
def test_the_same_text(
    matrix: Matrix, asked: list[Request], plain: dict[str, Told], names: tuple[str, ...], users: int
) -> None:
    assert matrix.run(asked, names, users) == plain


def test_drafts_of_all_sources_came_true(matrix: Matrix) -> None:
    """Else the tests above show nothing."""
    assert {name for name, count in matrix.accepted.items() if count} >= {"prompt", "live", "palimpsest"}


def test_first_tokens_beside_a_draft_are_drawn_by_their_probabilities(engine: Engine) -> None:
    """Chi-square of 2,000 seeds at temperature 1, each verified against the likeliest token as a draft, over the tokens
    that are expected at least 20 times; 1 in 100,000 such tests fails by chance, and the seeds are fixed."""
    prompt = engine.vocabulary.tokenize("Once upon a time there was a", add_special=True, parse_special=False)
    engine.decode([Row(token, i, 0, i == len(prompt) - 1) for i, token in enumerate(prompt)])
    _, likely = engine.logprobs(len(prompt) - 1, 0, 200)
    chances = {token: math.exp(logprob) for token, logprob in likely}
    best = likely[0][0]
    engine.trim(0, len(prompt) - 1)
    engine.decode([Row(prompt[-1], len(prompt) - 1, 0, True), Row(best, len(prompt), 0, True)])
    drawn: Counter[int] = Counter()
    for seed in range(2000):
        sampling = Sampling(temperature=1, top_k=0, top_p=1, min_p=0, seed=seed)
        drawing = Drawing(engine, Request(id="r", prompt=tuple(prompt), max_tokens=2, sampling=sampling), None)
        tokens = drawing.verify(0, [best]).tokens
        assert len(tokens) == (2 if tokens[0] == best else 1)
        drawn[tokens[0]] += 1
        drawing.close()
    engine.trim(0, 0)
    engine.compact(())
    expected = {token: 2000 * chance for token, chance in chances.items() if 2000 * chance >= 20}
    rest = 2000 - sum(expected.values())
    observed_rest = 2000 - sum(drawn[token] for token in expected)
    square = sum((drawn[token] - mean) ** 2 / mean for token, mean in expected.items())
    square += (observed_rest - rest) ** 2 / rest
    freedom = len(expected)
    assert freedom >= 8
    assert square < freedom + 4.4 * math.sqrt(2 * freedom) + 12
