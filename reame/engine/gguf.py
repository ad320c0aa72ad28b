"""The head of a GGUF file, read without llama.cpp: what a model is, before anything of it is loaded.

Only what decides how much memory it takes. Format: docs/gguf.md of ggml. All sizes come from the file and none is
trusted: whatever does not fit into the file, or is of an unknown kind, is "not known".
"""

from __future__ import annotations

import math
import mmap
import re
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from attrs import Factory, evolve, frozen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_MAGIC = b"GGUF"
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ENCODER = re.compile("bert|encoder")
"""Architectures that read a text at once and keep nothing of it."""
_LONGEST_KEPT = 4096
"""Numbers of an array that are kept, such as one for each layer; of a longer array, as of a vocabulary, only its length
is of interest."""

_LARGEST = 1 << 24
_MOST_DIMENSIONS = 4

_KINDS = {
    2: ("Q4_0", 32, 18), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84), 12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210), 20: ("IQ4_NL", 32, 18), 39: ("MXFP4", 32, 17), 41: ("Q1_0", 128, 18),
}  # fmt: skip
"""Kinds of weights that may be repacked: ggml's number -> name, weights in a block, bytes of a block."""
_LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight", "token_types.weight")
"""Of these rows are taken, and they are not multiplied with; but without `output.weight` the first one is both."""


@frozen(kw_only=True)
class ModelShape:
    """`kv_values`: numbers that one token leaves in the KV cache, keys and values of all layers. `state_values`:
    numbers (f32) of the state that a sequence of a recurrent or hybrid model has. `matrices`: bytes of the weights that
    rows are multiplied with, by kind; only kinds that llama.cpp may repack. `experts`: it has matrices of which a row
    takes some. `long_rope`: the number of cells decides by which factors positions are turned, and so what is in a
    cell. `context`: tokens that it was trained for, 0 when the
    file does not tell.
    """

    architecture: str
    weight_bytes: int
    kv_values: int
    embedding: int
    feed_forward: int
    vocab_size: int
    state_values: int = 0
    matrices: Mapping[str, int] = Factory(dict)
    experts: bool = False
    long_rope: bool = False
    context: int = 0


def read_shape(parts: Sequence[Path]) -> ModelShape | None:
    """Of the model in these files, the first of which has the head. None when it cannot be told."""
    try:
        weight_bytes = sum(part.stat().st_size for part in parts)
        heads, tensors = zip(*map(_read, parts), strict=True)
        together = [tensor for part in tensors for tensor in part]
        shape = _shape(heads[0], weight_bytes, _matrices(together))
        return evolve(
            shape,
            long_rope=any("rope_factors_long" in name for name, _, _ in together),
            experts=any("_exps." in name for name, _, _ in together),
        )
    except (OSError, ValueError, struct.error, LookupError, TypeError, ArithmeticError):
        return None


Tensor = tuple[str, int, tuple[int, ...]]
"""Name, ggml's number for its kind, size in each dimension."""


def _read(part: Path) -> tuple[dict[str, Any], list[Tensor]]:
    with part.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        head = _Head(data)
        return head.read(), list(head.tensors())


def _matrices(tensors: list[Tensor]) -> dict[str, int]:
    names = {name for name, _, _ in tensors}
    looked_up = _LOOKED_UP[("output.weight" not in names) :]
    found: Counter[str] = Counter()
    for name, kind, sizes in tensors:
        if kind in _KINDS and len(sizes) in (2, 3) and name.endswith(".weight") and name not in looked_up:
            word, block, size = _KINDS[kind]
            found[word] += math.prod(map(_whole, sizes)) // block * size
    return dict(found)


def _shape(head: dict[str, Any], weight_bytes: int, matrices: dict[str, int]) -> ModelShape:
    """Raises ValueError or LookupError when something is missing or absurd."""
    name = head["general.architecture"]
    if (layers := _whole(head[f"{name}.block_count"])) > _LONGEST_KEPT:
        raise ValueError("not a number of layers")
    embedding = _whole(head[f"{name}.embedding_length"])

    def each(key: str, otherwise: Any) -> list[int]:
        """One number for each layer; a file may give one for all."""
        value = head.get(f"{name}.{key}", otherwise)
        return [_whole(one) for one in (value if isinstance(value, list) else [value] * layers)]

    state = _state_values(head, name, embedding)
    heads = each("attention.head_count", 0 if state else None)
    kv_heads = each("attention.head_count_kv", heads)
    size = embedding // max(heads) if any(heads) or not state else 0
    num_states = sum(not count for count in kv_heads) or layers - layers // _whole(
        head.get(f"{name}.full_attention_interval", layers + 1)
    )
    keys, values = (_whole(head.get(f"{name}.attention.{key}_length", size)) for key in ("key", "value"))
    return ModelShape(
        architecture=name,
        weight_bytes=weight_bytes,
        kv_values=0 if _ENCODER.search(name) else sum(kv_heads) * (keys + values),
        embedding=embedding,
        feed_forward=max(each("feed_forward_length", 4 * embedding)),
        vocab_size=_whole(head.get("tokenizer.ggml.tokens", 0)),
        state_values=state * num_states,
        matrices=matrices,
        context=_whole(head.get(f"{name}.context_length", 0)),
    )


def _state_values(head: dict[str, Any], name: str, embedding: int) -> int:
    """Of one layer with a state, 0 when the model has none; for some kinds more than it is. After llama.cpp's
    `llama_hparams::n_embd_r` and `n_embd_s`."""

    def size(key: str, otherwise: int = 0) -> int:
        return _whole(head.get(f"{name}.{key}", otherwise))

    if head_size := size("wkv.head_size"):
        return embedding * (size("token_shift_count", 2) + head_size)
    if length := size("shortconv.l_cache"):
        return embedding * (length - 1)
    inner, state = size("ssm.inner_size"), size("ssm.state_size")
    convolved = inner + 2 * size("ssm.group_count") * state
    return max(size("ssm.conv_kernel") - 1, 0) * convolved + inner * state


def _whole(value: Any) -> int:
    """A number as a shape has them; larger ones are damage."""
    if not isinstance(value, int) or not 0 <= value <= _LARGEST:
        raise ValueError("not a size")
    return value


class _Head:
    """A cursor over the key-value pairs and the list of tensors behind them; a long array, or one of texts, becomes its
    length.
    """

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._at = 0
        self._num_tensors = 0

    def read(self) -> dict[str, Any]:
        if self._data[:4] != _MAGIC:
            raise ValueError("no GGUF")
        self._at = 4
        version, self._num_tensors, count = self._take("<IQQ")
        if version not in (2, 3):
            raise ValueError("another version")
        found: dict[str, Any] = {}
        for _ in range(count):
            key = self._text()
            (kind,) = self._take("<I")
            found[key] = self._value(kind)
        return found

    def tensors(self) -> Iterator[Tensor]:
        """After `read`."""
        for _ in range(self._num_tensors):
            name = self._text()
            (count,) = self._take("<I")
            if count > _MOST_DIMENSIONS:
                raise ValueError("not a tensor")
            sizes = self._take(f"<{count}Q")
            kind, _ = self._take("<IQ")
            yield name, kind, sizes

    def _take(self, form: str) -> tuple[Any, ...]:
        values = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return values

    def _text(self) -> str:
        (length,) = self._take("<Q")
        if length > len(self._data):
            raise ValueError("longer than the file")
        text = self._data[self._at : self._at + length].decode()
        self._at += length
        return text

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            return self._array()
        return self._take(f"<{_SCALARS[kind]}")[0]

    def _array(self) -> Any:
        kind, count = self._take("<IQ")
        if kind == _STRING:
            for _ in range(count):
                (length,) = struct.unpack_from("<Q", self._data, self._at)
                self._at += 8 + length
                if self._at > len(self._data):
                    raise ValueError("longer than the file")
            return count
        width = struct.calcsize(f"<{_SCALARS[kind]}")
        if count > _LONGEST_KEPT:
            self._at += width * count
            return count
        return list(self._take(f"<{count}{_SCALARS[kind]}"))
