"""How much memory a model will take, by arithmetic, before it is loaded. Pure.

The weights and the KV cache are exact; the rest is small, and was compared with what processes hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Collection

    from reame.engine.gguf import ModelShape
    from reame.engine.llama import LlamaOptions

BYTES_OF_32 = {"f16": 64, "q8_0": 34, "q5_1": 24, "q5_0": 22, "q4_1": 20, "q4_0": 18}
"""Bytes that 32 numbers take in the KV cache, by its type."""
STATE_BYTES = 4
"""Of a number in a state, whatever the type of the cells."""
EXTRA_SEQS = 2
"""Sequences beside the scheduler's that llama.cpp is given (`engine.llama_cells`)."""
PROCESS = 64 << 20
"""Python, the libraries and the HTTP side."""
WORD = 130
"""Bytes for a token of the vocabulary: its text, its place in the tables, the merges."""
_ARM = frozenset({"asimddp", "i8mm"})
_BOTH = _ARM | {"avx2"}
REPACKED = {
    "Q4_0": _BOTH, "Q4_K": _BOTH, "IQ4_NL": _BOTH, "MXFP4": _BOTH, "Q2_K": frozenset({"avx512f"}),
    "Q5_K": _ARM, "Q6_K": _ARM, "Q8_0": _ARM, "Q1_0": _ARM,
}  # fmt: skip
"""Kind of weights -> instruction sets of which any one has them repacked. After ggml-cpu/repack.cpp."""


@frozen(kw_only=True)
class Footprint:
    """Bytes. `pages` of the file the kernel can drop and read again; `weights`, `cells` (the KV cache), `states` (of
    all sequences, in recurrent and hybrid models) and `work` (what a step needs) are memory. `idle`: of `pages`, those
    that were read to make a copy, and are not looked at again.
    """

    pages: int
    idle: int
    weights: int
    cells: int
    work: int
    states: int = 0

    @property
    def held(self) -> int:
        """What cannot be dropped: above the memory that there is, the kernel kills."""
        return self.weights + self.cells + self.states + self.work

    @property
    def total(self) -> int:
        """What it takes to be fast."""
        return self.held + self.pages - self.idle

    @property
    def resident(self) -> int:
        """What the process shows while nobody else wants memory."""
        return self.held + self.pages


def cell_bytes(shape: ModelShape, kv_type: str) -> int:
    """One token in the KV cache."""
    return shape.kv_values * BYTES_OF_32[kv_type] // 32


def repacked_kinds(shape: ModelShape, features: Collection[str]) -> dict[str, int]:
    """Bytes of the weights that a llama.cpp compiled for these instruction sets copies into a layout of its own."""
    return {kind: size for kind, size in shape.matrices.items() if not REPACKED[kind].isdisjoint(features)}


def footprint(shape: ModelShape, options: LlamaOptions, *, features: Collection[str]) -> Footprint:
    """`features`: what llama.cpp was compiled for, in the kernel's words. A file that is read and not mapped leaves no
    page behind, and what is repacked then takes the place of what was read.
    """
    rows = options.max_rows * (6 * shape.embedding + 2 * shape.feed_forward) * 4
    logits = options.max_sampled * shape.vocab_size * 4
    copied = sum(repacked_kinds(shape, features).values()) if options.extra_buffers and not options.exact else 0
    pages = shape.weight_bytes if options.mmap and not options.mlock else 0
    held = copied if pages else shape.weight_bytes + (copied if options.mlock and options.mmap else 0)
    return Footprint(
        pages=pages,
        idle=min(copied, pages),
        weights=held,
        cells=options.num_cells * cell_bytes(shape, options.kv_type),
        states=(options.num_seqs + EXTRA_SEQS) * STATE_BYTES * shape.state_values,
        work=PROCESS + WORD * shape.vocab_size + rows + 2 * logits,
    )
