"""Does the model fit into the memory that is free? Asked before anything is loaded: an OOM kill says nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from attrs import evolve

from reame.catalog import split_parts
from reame.engine.footprint import cell_bytes, footprint
from reame.engine.gguf import read_shape
from reame.errors import ModelError
from reame.host.ram import ram

if TYPE_CHECKING:
    from pathlib import Path

    from reame.engine.footprint import Footprint
    from reame.engine.gguf import ModelShape
    from reame.engine.llama import LlamaOptions
    from reame.host.ram import Ram

FEWEST_CELLS = 256
"""Fewer are not worth proposing."""

log = logging.getLogger(__name__)


def fitted(path: Path, options: LlamaOptions, *, may_switch: bool) -> LlamaOptions:
    """The options with which the model fits: these, or, if it `may_switch`, without repacked weights, which are a
    second copy. A warning says so, and when the weights will be read from the disk again and again.

    Raises ModelError when it does not fit. A model whose head does not tell its size passes.
    """
    shape = read_shape(split_parts(path))
    if shape is None:
        return options
    memory = ram()
    chosen = _choose(shape, options, memory, may_switch=may_switch)
    needs = footprint(shape, chosen)
    if needs.held > _most(memory):
        raise ModelError(_refusal(path, shape, chosen, needs, memory))
    if chosen is not options:
        log.warning("extra buffers off: weights repacked for this CPU would need %s", _free(options, shape, memory))
    if needs.total > memory.available:
        log.warning(
            "%s wants %s and %s of memory are free: what does not fit is read from the disk again and again",
            path.name, size(needs.total), size(memory.available),
        )  # fmt: skip
    return chosen


def _choose(shape: ModelShape, options: LlamaOptions, memory: Ram, *, may_switch: bool) -> LlamaOptions:
    plain = evolve(options, extra_buffers=False)
    fits = footprint(shape, options).held <= _most(memory)
    return options if fits or not may_switch or not options.extra_buffers else plain


def _most(memory: Ram) -> int:
    """What can be held before the kernel kills: swapped memory is slow, and still memory."""
    return memory.available + memory.swap_total - memory.swap_used


def _free(options: LlamaOptions, shape: ModelShape, memory: Ram) -> str:
    return f"{size(footprint(shape, options).held)}, and {size(_most(memory))} are free"


def _refusal(path: Path, shape: ModelShape, options: LlamaOptions, needs: Footprint, memory: Ram) -> str:
    each = cell_bytes(shape, options.kv_type)
    cells = (_most(memory) - needs.held + needs.cells) // each // FEWEST_CELLS * FEWEST_CELLS
    weights = "" if needs.weights_are_file else f"{size(needs.weights)} of weights, "
    cure = (
        f"lower engine.cells to {cells} or less (engine.context may be no more than that)"
        if cells >= FEWEST_CELLS
        else "take a smaller model or quantisation"
    )
    return (
        f"{path.name} needs {size(needs.held)} of memory ({weights}{size(needs.cells)} for {options.num_cells} KV"
        f" cells, {size(needs.work)} to work) and {size(_most(memory))} are free: {cure}"
    )


def size(count: float) -> str:
    """Bytes for a person."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{max(0, count) / (1 << 20):.0f} MiB"
