"""Native sampler chains: how one sequence's next token is drawn from a row of logits."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

from reame.core.request import BAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.core.request import Sampling


def build_chain(library: Any, sampling: Sampling, prompt: Sequence[int], *, vocab_size: int, context: int) -> Any:
    """A chain in llama.cpp's usual order: bias, penalties, then greedy or top-k, top-p, min-p, temperature, draw.

    `repeat_penalty` looks at the last `repeat_last_n` tokens, the prompt included; presence and frequency penalties
    count what was generated, as OpenAI documents. Every drawn token uses one random number, so a seed fixes the text.
    The caller frees the chain with `llama_sampler_free`.
    """
    chain = library.llama_sampler_chain_init(library.llama_sampler_chain_default_params())

    def add(sampler: Any) -> None:
        library.llama_sampler_chain_add(chain, sampler)

    if sampling.logit_bias:
        add(_logit_bias(library, sampling.logit_bias, vocab_size))
    if sampling.repeat_penalty != 1.0 and sampling.repeat_last_n:
        penalty = library.llama_sampler_init_penalties(
            vocab_size, sampling.repeat_last_n, sampling.repeat_penalty, 0.0, 0.0
        )
        for token in prompt[-sampling.repeat_last_n :]:
            library.llama_sampler_accept(penalty, token)
        add(penalty)
    if sampling.presence_penalty or sampling.frequency_penalty:
        add(
            library.llama_sampler_init_penalties(
                vocab_size, context, 1.0, sampling.frequency_penalty, sampling.presence_penalty
            )
        )
    if sampling.temperature <= 0:
        add(library.llama_sampler_init_greedy())
        return chain
    if sampling.top_k > 0:
        add(library.llama_sampler_init_top_k(sampling.top_k))
    if sampling.top_p < 1:
        add(library.llama_sampler_init_top_p(sampling.top_p, 1))
    if sampling.min_p > 0:
        add(library.llama_sampler_init_min_p(sampling.min_p, 1))
    add(library.llama_sampler_init_temp(sampling.temperature))
    add(library.llama_sampler_init_dist(seed32(sampling.seed or 0)))
    return chain


def seed32(seed: int) -> int:
    """Any whole number to llama.cpp's 32 bits: itself where it fits. 0xFFFFFFFF, which means "random" there, is 1."""
    folded = (seed ^ (seed >> 32)) & 0xFFFFFFFF if not 0 <= seed < 0xFFFFFFFF else seed
    return folded if folded != 0xFFFFFFFF else 1


def _logit_bias(library: Any, pairs: tuple[tuple[int, float], ...], vocab_size: int) -> Any:
    array = (library.llama_logit_bias * len(pairs))()
    for entry, (token, bias) in zip(array, pairs, strict=True):
        entry.token = token
        entry.bias = -math.inf if bias <= BAN else bias
    return library.llama_sampler_init_logit_bias(vocab_size, ctypes.c_int32(len(pairs)), array)
