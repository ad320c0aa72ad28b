"""How much memory a model will take, by arithmetic, before it is loaded. Pure.

The weights and the KV cache are exact; the rest is small, and was compared with what processes hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from reame.engine.gguf import ModelShape
    from reame.engine.llama import LlamaOptions

BYTES_OF_32 = {"f16": 64, "q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18}
"""Bytes that 32 numbers take in the KV cache, by its type."""
PROCESS = 64 << 20
"""Python, the libraries and the HTTP side."""


@frozen
class Footprint:
    """Bytes. If `weights_are_file`, `weights` are its pages, which the kernel can drop and read again; else they are
    memory like `cells` (the KV cache) and `work` (what a step needs)."""

    weights: int
    cells: int
    work: int
    weights_are_file: bool

    @property
    def held(self) -> int:
        """What cannot be dropped: above the memory that there is, the kernel kills."""
        return self.cells + self.work + (0 if self.weights_are_file else self.weights)

    @property
    def total(self) -> int:
        """What it takes to be fast."""
        return self.cells + self.work + self.weights


def cell_bytes(shape: ModelShape, kv_type: str) -> int:
    """One token in the KV cache."""
    return shape.kv_values * BYTES_OF_32[kv_type] // 32


def footprint(shape: ModelShape, options: LlamaOptions) -> Footprint:
    """Repacked weights are counted as memory, all of them: which kinds are repacked depends on the CPU."""
    rows = options.max_rows * (6 * shape.embedding + 2 * shape.feed_forward) * 4
    logits = options.max_sampled * shape.vocab_size * 4
    return Footprint(
        weights=shape.weight_bytes,
        cells=options.num_cells * cell_bytes(shape, options.kv_type),
        work=PROCESS + rows + 2 * logits,
        weights_are_file=options.mmap and not options.mlock and (options.exact or not options.extra_buffers),
    )
