"""Reame's own kernels (`reame/kernels/`), loaded in front of llama.cpp's: the same results, sooner.

ggml computes K-quant weights by another kernel, which rounds otherwise, when more rows share a step, and on x86 most
of its kernels unpack each weight anew for each row. The library takes the place of two functions of libggml-cpu, by
the rules that the dynamic linker has for names that two libraries define. Built by `scripts/setup` where the CPU has
AVX2; without it, or when it is not as it should be, all is computed by ggml.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Array = np.ndarray[Any, np.dtype[Any]]

log = logging.getLogger(__name__)


@frozen
class Kind:
    """ggml's number for it; weights and bytes of a block, and which bytes begin a number of half precision; what it is
    multiplied with, and the bytes of a block of that."""

    number: int
    block: int
    size: int
    halves: tuple[int, ...]
    activation: str
    activation_size: int


KINDS: Mapping[str, Kind] = {
    "Q4_1": Kind(3, 32, 20, (0, 2), "q8_1", 36),
    "Q4_K": Kind(12, 256, 144, (0, 2), "q8_K", 292),
    "Q5_K": Kind(13, 256, 176, (0, 2), "q8_K", 292),
    "Q6_K": Kind(14, 256, 210, (208,), "q8_K", 292),
}
"""Of weights that are computed here."""


class _Needed(ctypes.Structure):
    """One that the library wants to call in libggml-cpu, and where it wants to have its address."""

    _fields_ = (("name", ctypes.c_char_p), ("place", ctypes.POINTER(ctypes.c_void_p)))


def available(folder: Path = Path(sys.prefix)) -> bool:
    """Whether `scripts/setup` built them, for the llama.cpp that is installed."""
    return library_file(folder).is_file()


def library_file(folder: Path = Path(sys.prefix)) -> Path:
    """They use structs of llama.cpp's that are part of no interface, so each version has a library of its own."""
    return folder / "lib" / f"reame-kernels-{importlib.metadata.version('llama-cpp-python')}.so"


def load(path: Path) -> ctypes.CDLL | None:
    """To be called before anything loads llama.cpp, and `switch_on` behind it. None when there is nothing to load."""
    if not path.exists():
        return None
    try:
        _Needed.in_dll(ctypes.CDLL(str(path)), "reame_needed")  # seen by nobody until it is known for one of ours
        return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except (OSError, ValueError) as error:
        log.warning("own kernels off, run ./scripts/setup: %s", error)
        return None


def switch_on(kernels: ctypes.CDLL, ggml: ctypes.CDLL) -> bool:
    """Connects them with libggml-cpu and checks each against it, in a few milliseconds; when one does not give the same
    bits, none is used and a warning says so."""
    for needed in _needed(kernels):
        needed.place[0] = ctypes.cast(getattr(ggml, needed.name.decode()), ctypes.c_void_p)
    wrong = [name for name in KINDS if not agrees(kernels, ggml, name, rows=3, blocks=2, columns=7)]
    if wrong:
        log.warning("own kernels off: on this CPU they compute %s otherwise than ggml", ", ".join(wrong))
    kernels.reame_switch(ctypes.c_int(not wrong))
    return not wrong


def agrees(kernels: ctypes.CDLL, ggml: ctypes.CDLL, name: str, *, rows: int, blocks: int, columns: int) -> bool:
    """Whether random weights of a kind, `rows` of so many blocks, times random columns give the bits of ggml's
    vec_dot, alone and together."""
    kind, random = KINDS[name], np.random.default_rng(rows + blocks + columns)
    weights = random_weights(kind, random, rows, blocks)
    values = random.normal(size=(columns, blocks * kind.block)).astype(np.float32)
    activations = np.zeros((columns, blocks, kind.activation_size), np.uint8)
    for value, activation in zip(values, activations, strict=True):
        _quantize(ggml, kind, value, activation)
    expected = np.array([[_dot(ggml, name, row, column) for row in weights] for column in activations])
    return all(
        np.array_equal(_product(kernels, kind, weights, activations[:some]), expected[:some])
        for some in range(1, columns + 1)
    )


def random_weights(kind: Kind, random: np.random.Generator, rows: int, blocks: int, scale: float = 1.0) -> Array:
    """Bytes, of the shape (rows, blocks, bytes of a block): any bits, but for scales that are numbers."""
    weights = random.integers(0, 256, (rows, blocks, kind.size), np.uint8)
    for place in kind.halves:
        scales = random.normal(0, scale, (rows, blocks)).astype(np.float16)
        weights[:, :, place : place + 2] = scales.view(np.uint8).reshape(rows, blocks, 2)
    return weights


def _needed(kernels: ctypes.CDLL) -> Iterator[_Needed]:
    at = ctypes.addressof(_Needed.in_dll(kernels, "reame_needed"))
    while (needed := _Needed.from_address(at)).name:
        yield needed
        at += ctypes.sizeof(_Needed)


def _quantize(ggml: ctypes.CDLL, kind: Kind, values: Array, to: Array) -> None:
    function = getattr(ggml, f"quantize_row_{kind.activation}")
    function(ctypes.c_void_p(values.ctypes.data), ctypes.c_void_p(to.ctypes.data), ctypes.c_int64(len(values)))


def _dot(ggml: ctypes.CDLL, name: str, row: Array, column: Array) -> np.float32:
    kind, result, none = KINDS[name], np.zeros(1, np.float32), ctypes.c_size_t(0)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (result, row, column)]
    length = ctypes.c_int(len(row) * kind.block)
    function = getattr(ggml, f"ggml_vec_dot_q{name[1:]}_{kind.activation}")
    function(length, pointers[0], none, pointers[1], none, pointers[2], none, ctypes.c_int(1))
    return np.float32(result[0])


def _product(kernels: ctypes.CDLL, kind: Kind, weights: Array, activations: Array) -> Array:
    """One row for each column. The activations are copied, as they are prepared in place."""
    rows, blocks, _ = weights.shape
    prepared, result = activations.copy(), np.zeros((len(activations), rows), np.float32)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (weights, prepared, result)]
    sizes = [ctypes.c_int(each) for each in (kind.number, rows, blocks, len(activations))]
    kernels.reame_multiply(sizes[0], pointers[0], sizes[1], sizes[2], pointers[1], sizes[3], pointers[2])
    return result
