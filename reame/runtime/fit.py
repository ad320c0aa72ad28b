"""Does the model fit into the memory that is free? Asked before anything is loaded: an OOM kill says nothing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from attrs import evolve

from reame.catalog import split_parts
from reame.engine.footprint import cell_bytes, footprint, repacked_kinds
from reame.engine.gguf import read_shape
from reame.engine.kernels import KINDS
from reame.errors import ModelError
from reame.host.features import cpu_features, llama_library
from reame.host.library import compiled_features
from reame.host.ram import ram

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from reame.engine.footprint import Footprint
    from reame.engine.gguf import ModelShape
    from reame.engine.llama import LlamaOptions
    from reame.host.ram import Ram

FEWEST_CELLS = 256
"""Fewer are not worth proposing."""

log = logging.getLogger(__name__)


def fitted(path: Path, options: LlamaOptions, *, may_switch: bool, beside: int = 0, cure: str = "") -> LlamaOptions:
    """The options with which the model fits: these, or with the file mapped instead of copied, or, if it `may_switch`,
    without repacked weights, which are a second copy then. A warning says so, and when the weights will be read from
    the disk again and again. Where own kernels are the better ones, weights are not repacked either, without a word.
    `beside`: bytes that something else is about to take. `cure`: what to do when it does not fit, if that is not fewer
    cells.

    Raises ModelError when it does not fit. A model whose head does not tell its size passes.
    """
    shape = read_shape(split_parts(path))
    if shape is None:
        return options
    if may_switch and options.own_kernels and _suits_own_kernels(shape):
        options = evolve(options, extra_buffers=False)
    memory, chosen, wanted = _without(ram(), beside), options, _needs(shape, options)
    needs = wanted
    for other, room in _smaller(options, memory, may_switch=may_switch):
        if needs.held <= room:
            break
        chosen, needs = other, _needs(shape, other)
    if needs.held > _most(memory):
        raise ModelError(f"{_refusal(path, options, needs, memory)}: {cure or _cure(shape, chosen, needs, memory)}")
    if chosen.extra_buffers != options.extra_buffers:
        log.warning(
            "extra buffers off: with weights repacked for this CPU it would need %s, and %s are free",
            size(wanted.held), size(_most(memory)),
        )  # fmt: skip
    elif chosen is not options:
        log.warning(
            "the file is mapped: a copy of it would need %s in all, and %s of RAM are free",
            size(wanted.held), size(memory.available),
        )  # fmt: skip
    if needs.total > memory.available:
        log.warning(
            "%s wants %s and %s of memory are free: what does not fit is read from the disk again and again",
            path.name, size(needs.total), size(memory.available),
        )  # fmt: skip
    return chosen


def _suits_own_kernels(shape: ModelShape) -> bool:
    """Whether most of what would be repacked is of kinds that `engine.kernels` has: it computes what is not repacked.
    Experts it leaves to llama.cpp."""
    repacked = repacked_kinds(shape, _features())
    own = sum(size for kind, size in repacked.items() if kind in KINDS)
    return not shape.experts and 2 * own > sum(repacked.values())


def _smaller(options: LlamaOptions, memory: Ram, *, may_switch: bool) -> Iterator[tuple[LlamaOptions, int]]:
    """What holds less, the fastest first, each to be taken when what came before needs more than so many bytes.
    A copy of the weights in swap would be worse than the pages of their file."""
    if not options.mmap and not options.mlock:
        options = evolve(options, mmap=True)
        yield options, memory.available
    if may_switch and options.extra_buffers:
        yield evolve(options, extra_buffers=False), _most(memory)


def trained_context(path: Path) -> int:
    """Tokens that the model was trained for; 0 when its file does not tell."""
    shape = read_shape(split_parts(path))
    return shape.context if shape else 0


def expected(path: Path, options: LlamaOptions) -> Footprint | None:
    """What loading it will take; None when the head of the file does not tell."""
    shape = read_shape(split_parts(path))
    return None if shape is None else _needs(shape, options)


def _needs(shape: ModelShape, options: LlamaOptions) -> Footprint:
    return footprint(shape, options, features=_features())


def _features() -> Collection[str]:
    library = llama_library()
    return (compiled_features(library) if library else frozenset()) or cpu_features()


def _without(memory: Ram, taken: int) -> Ram:
    """What is left: RAM first, then swap."""
    swapped = max(0, taken - memory.available)
    return evolve(memory, available=max(0, memory.available - taken), swap_free=max(0, memory.swap_free - swapped))


def _most(memory: Ram) -> int:
    """What can be held before the kernel kills: swapped memory is slow, and still memory."""
    return memory.available + memory.swap_free


def _cure(shape: ModelShape, options: LlamaOptions, needs: Footprint, memory: Ram) -> str:
    each = max(1, cell_bytes(shape, options.kv_type))
    cells = (_most(memory) - needs.held + needs.cells) // each // FEWEST_CELLS * FEWEST_CELLS
    if needs.states > needs.cells:
        return f"lower engine.residents and engine.slots, which are {options.num_seqs} together now"
    if cells >= FEWEST_CELLS:
        return f"lower engine.cells to {cells} or less (engine.context may be no more than that)"
    return "take a smaller model or quantisation"


def _refusal(path: Path, options: LlamaOptions, needs: Footprint, memory: Ram) -> str:
    kind = "repacked weights" if needs.pages else "weights"
    weights = f"{size(needs.weights)} of {kind}, " if needs.weights else ""
    states = f"{size(needs.states)} for the states of {options.num_seqs} sequences, " if needs.states else ""
    return (
        f"{path.name} needs {size(needs.held)} of memory ({weights}{size(needs.cells)} for {options.num_cells} KV"
        f" cells, {states}{size(needs.work)} to work) and {size(_most(memory))} are free"
    )


def size(count: float) -> str:
    """Bytes for a person."""
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{max(0, count) / (1 << 20):.0f} MiB"
