"""Random models of a few layers, written with gguf: architectures whose state cannot be cut, and one with a window.

Their vocabulary is the 256 bytes and an end: a text's tokens are its bytes. Weights are large enough for texts that do
not repeat soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter, quantize

from reame.engine.kernels import KINDS, random_weights

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

WIDTH, LAYERS, CONTEXT = 64, 4, 4096
INNER, STATE, RANK, KERNEL = 2 * WIDTH, 16, 32, 4
HEADS, FEED_FORWARD = 2, 128
WINDOW = 32


class _Writer:
    """Draws tensors and writes them; matrices in q8_0, whose results do not depend on how rows are grouped."""

    def __init__(self, path: Path, architecture: str) -> None:
        self.file = GGUFWriter(path, architecture)
        self._random = np.random.default_rng(1)

    def matrix(self, name: str, rows: int, columns: int, scale: float = 1.0) -> None:
        values = self._random.normal(0, scale / columns**0.5, (rows, columns)).astype(np.float32)
        packed = quantize(values, GGMLQuantizationType.Q8_0)
        self.file.add_tensor(name, packed, raw_dtype=GGMLQuantizationType.Q8_0)

    def packed(self, name: str, rows: int, columns: int, kind: str) -> None:
        """Random bits with small scales."""
        layout = KINDS[kind]
        scale = 2e-4 if layout.block > 32 else 2e-2
        blocks = random_weights(layout, self._random, rows, columns // layout.block, scale)
        self.file.add_tensor(name, blocks.reshape(rows, -1), raw_dtype=GGMLQuantizationType[kind])

    def plain(self, name: str, values: NDArray[np.float32]) -> None:
        self.file.add_tensor(name, np.ascontiguousarray(values, np.float32))

    def ones(self, name: str, size: int) -> None:
        self.plain(name, np.ones(size, np.float32))

    def normal(self, name: str, *shape: int, scale: float = 1.0) -> None:
        self.plain(name, self._random.normal(0, scale, shape).astype(np.float32))

    def close(self) -> None:
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()


def write_mamba(path: Path, layers: int = LAYERS) -> Path:
    """Only recurrent layers: no KV cells at all."""
    writer = _begin(path, "mamba", layers)
    _describe_ssm(writer.file)
    writer.ones("output_norm.weight", WIDTH)
    for layer in range(layers):
        writer.ones(f"blk.{layer}.attn_norm.weight", WIDTH)
        _mamba_layer(writer, f"blk.{layer}")
    writer.close()
    return path


def write_jamba(path: Path, layers: int = LAYERS) -> Path:
    """Recurrent layers and one with attention in turn: a state, and KV cells beside it."""
    writer = _begin(path, "jamba", layers)
    _describe_ssm(writer.file)
    writer.file.add_head_count(HEADS)
    writer.file.add_head_count_kv([0 if layer % 2 == 0 else HEADS // 2 for layer in range(layers)])
    writer.file.add_feed_forward_length(FEED_FORWARD)
    writer.ones("output_norm.weight", WIDTH)
    for layer in range(layers):
        name = f"blk.{layer}"
        writer.ones(f"{name}.attn_norm.weight", WIDTH)
        if layer % 2 == 0:
            _mamba_layer(writer, name)
            for part, size in (("dt", RANK), ("b", STATE), ("c", STATE)):
                writer.ones(f"{name}.ssm_{part}_norm.weight", size)
        else:
            _attention(writer, name)
        _feed_forward(writer, name)
    writer.close()
    return path


def write_lfm2(path: Path, layers: int = LAYERS) -> Path:
    """Short convolutions and one layer with attention in turn: a tiny state, and KV cells beside it."""
    writer = _begin(path, "lfm2", layers)
    writer.file.add_shortconv_l_cache(3)
    writer.file.add_head_count(HEADS)
    writer.file.add_head_count_kv([0 if layer % 2 == 0 else HEADS // 2 for layer in range(layers)])
    writer.file.add_feed_forward_length(FEED_FORWARD)
    writer.file.add_rope_freq_base(10000.0)
    writer.ones("token_embd_norm.weight", WIDTH)
    for layer in range(layers):
        name = f"blk.{layer}"
        writer.ones(f"{name}.attn_norm.weight", WIDTH)
        if layer % 2 == 0:
            writer.normal(f"{name}.shortconv.conv.weight", WIDTH, 3)
            writer.matrix(f"{name}.shortconv.in_proj.weight", 3 * WIDTH, WIDTH, 2.0)
            writer.matrix(f"{name}.shortconv.out_proj.weight", WIDTH, WIDTH, 2.0)
        else:
            for part in "qk":
                writer.ones(f"{name}.attn_{part}_norm.weight", WIDTH // HEADS)
            _attention(writer, name)
        _feed_forward(writer, name)
    writer.close()
    return path


def write_gemma3(path: Path, layers: int = 6) -> Path:
    """Five layers that see the last `WINDOW` tokens, and one that sees all."""
    writer = _begin(path, "gemma3", layers)
    writer.file.add_head_count(HEADS)
    writer.file.add_head_count_kv(HEADS // 2)
    writer.file.add_key_length(WIDTH // HEADS)
    writer.file.add_value_length(WIDTH // HEADS)
    writer.file.add_feed_forward_length(FEED_FORWARD)
    writer.file.add_rope_freq_base(10000.0)
    writer.file.add_sliding_window(WINDOW)
    writer.ones("output_norm.weight", WIDTH)
    for layer in range(layers):
        name = f"blk.{layer}"
        for part in ("attn", "post_attention", "post_ffw"):
            writer.ones(f"{name}.{part}_norm.weight", WIDTH)
        for part in "qk":
            writer.ones(f"{name}.attn_{part}_norm.weight", WIDTH // HEADS)
        _attention(writer, name)
        _feed_forward(writer, name)
    writer.close()
    return path


def write_k_quants(path: Path, layers: int = 2) -> Path:
    """A Llama whose matrices are of the K-quants that most people take, and of Q4_1; wide enough for sums of several
    blocks, whose order is what ggml's kernels differ in."""
    width = 1024
    writer = _begin(path, "llama", layers, width)
    writer.file.add_head_count(16)
    writer.file.add_head_count_kv(8)
    writer.file.add_feed_forward_length(2 * width)
    writer.ones("output_norm.weight", width)
    for layer in range(layers):
        name = f"blk.{layer}"
        for part in ("attn", "ffn"):
            writer.ones(f"{name}.{part}_norm.weight", width)
        for part, rows, kind in (("q", width, "Q4_K"), ("k", width // 2, "Q4_1"), ("v", width // 2, "Q6_K")):
            writer.packed(f"{name}.attn_{part}.weight", rows, width, kind)
        writer.packed(f"{name}.attn_output.weight", width, width, "Q5_K")
        writer.packed(f"{name}.ffn_gate.weight", 2 * width, width, "Q4_K")
        writer.packed(f"{name}.ffn_up.weight", 2 * width, width, "Q4_K")
        writer.packed(f"{name}.ffn_down.weight", width, 2 * width, "Q6_K")
    writer.close()
    return path


def _begin(path: Path, architecture: str, layers: int, width: int = WIDTH) -> _Writer:
    writer = _Writer(path, architecture)
    file = writer.file
    file.add_name(f"tiny {architecture}")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(width)
    file.add_block_count(layers)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(257)
    _byte_vocabulary(file)
    writer.matrix("token_embd.weight", 257, width, 8.0)
    writer.matrix("output.weight", 257, width, 4.0)
    return writer


def _byte_vocabulary(file: GGUFWriter) -> None:
    """The letters that GPT-2's alphabet writes the bytes with, and an end of text."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in shown]
    letters = {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("gpt-2")
    file.add_token_list([*(letters[byte] for byte in range(256)), "<|end|>"])
    file.add_token_types([*[1] * 256, 3])
    file.add_token_merges(["a a"])
    file.add_eos_token_id(256)
    file.add_add_bos_token(False)


def _describe_ssm(file: GGUFWriter) -> None:
    file.add_ssm_conv_kernel(KERNEL)
    file.add_ssm_inner_size(INNER)
    file.add_ssm_state_size(STATE)
    file.add_ssm_time_step_rank(RANK)


def _mamba_layer(writer: _Writer, name: str) -> None:
    writer.matrix(f"{name}.ssm_in.weight", 2 * INNER, WIDTH, 2.0)
    writer.normal(f"{name}.ssm_conv1d.weight", INNER, KERNEL, scale=0.5)
    writer.normal(f"{name}.ssm_conv1d.bias", INNER, scale=0.1)
    writer.matrix(f"{name}.ssm_x.weight", RANK + 2 * STATE, INNER, 2.0)
    writer.matrix(f"{name}.ssm_dt.weight", INNER, RANK)
    writer.normal(f"{name}.ssm_dt.bias", INNER, scale=0.5)
    writer.plain(f"{name}.ssm_a", -np.tile(np.linspace(0.05, 1.0, STATE, dtype=np.float32), (INNER, 1)))
    writer.ones(f"{name}.ssm_d", INNER)
    writer.matrix(f"{name}.ssm_out.weight", WIDTH, INNER, 2.0)


def _attention(writer: _Writer, name: str) -> None:
    writer.matrix(f"{name}.attn_q.weight", WIDTH, WIDTH, 2.0)
    writer.matrix(f"{name}.attn_k.weight", WIDTH // 2, WIDTH, 2.0)
    writer.matrix(f"{name}.attn_v.weight", WIDTH // 2, WIDTH, 2.0)
    writer.matrix(f"{name}.attn_output.weight", WIDTH, WIDTH, 2.0)


def _feed_forward(writer: _Writer, name: str) -> None:
    writer.ones(f"{name}.ffn_norm.weight", WIDTH)
    writer.matrix(f"{name}.ffn_gate.weight", FEED_FORWARD, WIDTH, 2.0)
    writer.matrix(f"{name}.ffn_up.weight", FEED_FORWARD, WIDTH, 2.0)
    writer.matrix(f"{name}.ffn_down.weight", WIDTH, FEED_FORWARD, 2.0)
