"""llama.cpp with the real small model: what the fake cannot show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from reame.core.blocks import Block
from reame.core.request import Sampling
from reame.engine.base import Row
from reame.engine.llama import LlamaEngine, LlamaOptions
from reame.errors import ModelError
from reame.memory.format import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

GREEDY = Sampling(temperature=0)


@pytest.fixture(scope="module")
def llama(model_path: Path) -> Iterator[LlamaEngine]:
    engine = LlamaEngine(model_path, LlamaOptions(num_cells=256, num_seqs=2, max_rows=32, threads=2))
    yield engine
    engine.close()


def prefill(llama: LlamaEngine, tokens: list[int]) -> int:
    llama.trim(0, 0)
    llama.compact(())
    llama.decode([Row(token, i, 0, i == len(tokens) - 1) for i, token in enumerate(tokens)])
    return len(tokens) - 1


def plain(llama: LlamaEngine, prompt: list[int], count: int, sampling: Sampling) -> list[int]:
    sampler = llama.new_sampler(sampling, prompt)
    drawn = [llama.sample(prefill(llama, prompt), sampler)]
    while len(drawn) < count:
        llama.decode([Row(drawn[-1], llama.length(0), 0, True)])
        drawn.append(llama.sample(0, sampler))
    llama.free_sampler(sampler)
    return drawn


def first_token(llama: LlamaEngine, sampling: Sampling, text: str = "The capital of France is") -> str:
    prompt = llama.vocabulary.tokenize(text, add_special=True, parse_special=False)
    drawn = plain(llama, prompt, 1, sampling)
    return llama.vocabulary.piece(drawn[0]).decode()


def test_the_model_speaks(llama: LlamaEngine) -> None:
    assert first_token(llama, GREEDY) == " Paris"


def test_logit_bias_bans_and_forces(llama: LlamaEngine) -> None:
    (paris,) = llama.vocabulary.tokenize(" Paris", add_special=False, parse_special=False)
    (rome,) = llama.vocabulary.tokenize(" Rome", add_special=False, parse_special=False)
    for heat in (0, 1.0):
        ban = Sampling(temperature=heat, seed=1, logit_bias=((paris, -100.0),))
        assert first_token(llama, ban) != " Paris"
        force = Sampling(temperature=heat, seed=1, logit_bias=((rome, 100.0),))
        assert first_token(llama, force) == " Rome"


def test_penalties_change_repetition(llama: LlamaEngine) -> None:
    text = "one two three one two three one two three one two"
    prompt = llama.vocabulary.tokenize(text, add_special=True, parse_special=False)
    free = plain(llama, prompt, 12, GREEDY)
    for kind in ("repeat_penalty", "presence_penalty", "frequency_penalty"):
        held = plain(llama, prompt, 12, Sampling(temperature=0, **{kind: 1.9}))
        assert held != free
        assert len(set(held)) > len(set(free)), kind


def test_the_probabilities_of_all_tokens_sum_to_one(llama: LlamaEngine) -> None:
    prompt = llama.vocabulary.tokenize("Hello", add_special=True, parse_special=False)
    row = prefill(llama, prompt)
    _, top = llama.logprobs(row, 0, llama.info.vocab_size - 1)
    assert math.isclose(sum(math.exp(p) for _, p in top), 1.0, rel_tol=1e-3)


@pytest.mark.parametrize("content", [b"", b"GGUF", b"no model at all" * 100])
def test_a_file_that_is_no_model_is_refused_in_a_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        LlamaEngine(path, LlamaOptions())
    assert "broken.gguf" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_progress_is_told_and_can_stop_the_load(model_path: Path) -> None:
    shares: list[float] = []

    def go_on(answer: bool) -> Callable[[float], bool]:
        return lambda share: (shares.append(share), answer)[1]

    LlamaEngine(model_path, LlamaOptions(num_cells=256), on_progress=go_on(True)).close()
    assert shares[-1] == 1.0
    with pytest.raises(ModelError):
        LlamaEngine(model_path, LlamaOptions(), on_progress=go_on(False))


def test_a_block_s_file_is_smaller_than_its_keys_and_values(llama: LlamaEngine) -> None:
    """30 layers, keys and values of 3 heads of 64 each, 34 bytes for 32 of them in q8_0."""
    text = "The quick brown fox jumps over the lazy dog. " * 2
    tokens = llama.vocabulary.tokenize(text, add_special=True, parse_special=False)[:16]
    prefill(llama, tokens)
    block = Block(bytes(16), bytes(16), 0, tuple(tokens), llama.save(0, 0, 16))
    assert len(encode(block, fingerprint=bytes(16))) <= 16 * 30 * 2 * 192 * 34 // 32


def test_the_number_of_threads_leaves_no_trace_in_the_logits(model_path: Path) -> None:
    """Beyond 512 cells, where the sums of f16 cells are split among the threads, and those of the default are not."""
    engine = LlamaEngine(model_path, LlamaOptions(num_cells=640, num_seqs=2, max_rows=540, threads=2))
    prefill(engine, [100 + i % 300 for i in range(540)])
    told = []
    for threads in (2, 1, 2):
        engine.set_threads(threads, threads)
        for number in range(2):
            engine.decode([Row(50 + number, 540 + number, 0, True)])
            told.append(engine.logprobs(0, 7, 20))
        engine.trim(0, 540)
        engine.compact(())
    assert told[:2] == told[2:4] == told[4:]
    engine.close()
