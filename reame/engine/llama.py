"""llama.cpp behind the `Engine` protocol: one model, one context, unified cells. Decode thread only, for life.

Bound to llama-cpp-python's low-level module: its `Llama` class hides positions and sequence ids, which are the point.
"""

from __future__ import annotations

import ctypes
import logging
import resource
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from reame.engine.base import ModelInfo, Row
from reame.engine.footprint import EXTRA_SEQS
from reame.engine.huge_pages import use_huge_pages
from reame.engine.llama_cells import LlamaCells
from reame.engine.llama_failure import load_failure
from reame.engine.llama_library import load_library, take_errors
from reame.engine.llama_sampler import build_chain
from reame.engine.llama_vocabulary import LlamaVocabulary
from reame.engine.spin import FIXED
from reame.errors import EngineError, ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reame.core.compaction import Segment
    from reame.core.request import Sampling

log = logging.getLogger(__name__)


_GREEDY = object()
"""The sampler of whoever wants the likeliest token and nothing else: a chain would first copy the whole row."""


@frozen(kw_only=True)
class LlamaOptions:
    """How to load. `num_cells` KV cells for `num_seqs` sequence ids; `max_rows` rows a step, of which at most
    `max_sampled` give logits (they decide the size of the logits buffer). 0 cells: all that the model was trained for.
    """

    num_cells: int = 4096
    num_seqs: int = 16
    max_rows: int = 512
    max_sampled: int = 128
    threads: int = 1
    prefill_threads: int = 1
    kv_type: str = "q8_0"
    flash_attention: bool = True
    mmap: bool = False
    mlock: bool = False
    extra_buffers: bool = True
    own_kernels: bool = True
    exact: bool = False
    spin_count: int = FIXED


class LlamaEngine:
    """See `engine.base.Engine`. `on_progress` is told the loaded share, 0.0 to 1.0, from inside the constructor;
    when it returns False the load is given up.

    Raises ModelError when the file cannot be loaded or is of a kind that is not served.
    """

    def __init__(
        self, path: Path, options: LlamaOptions, *, on_progress: Callable[[float], bool] = lambda share: True
    ) -> None:
        self._library = load_library(
            spin_count=options.spin_count, exact=options.exact, own_kernels=options.own_kernels
        )
        take_errors()
        self._model = self._load_model(path, options, on_progress)
        self._context = self._open_context(path, options)
        log.debug("huge pages: %d MB of weights and cells", use_huge_pages() >> 20)
        vocab = self._library.llama_model_get_vocab(self._model)
        self.vocabulary = LlamaVocabulary(self._library, vocab)
        self.info = _model_info(self._library, self._model, vocab, self.vocabulary)
        self._logits_row = ctypes.c_float * self.info.vocab_size
        self.num_cells: int = self._library.llama_n_ctx(self._context)
        self.num_seqs, self.max_rows = options.num_seqs, options.max_rows
        self._cells = LlamaCells(
            self._library, self._context, num_seqs=options.num_seqs, whole_state=self.info.whole_state,
            has_window=bool(self.info.sliding_window),
        )  # fmt: skip
        self._batch = _Batch(self._library, options.max_rows)

    def copy(self, src: int, dst: int, length: int) -> None:
        self._cells.copy(src, dst, length)

    def trim(self, seq: int, length: int) -> None:
        self._cells.trim(seq, length)

    def compact(self, pieces: Sequence[Segment]) -> None:
        self._cells.compact(pieces)

    def save(self, seq: int, start: int, stop: int) -> bytes:
        return self._cells.save(seq, start, stop)

    def restore(self, seq: int, start: int, stop: int, data: bytes) -> None:
        self._cells.restore(seq, start, stop, data)

    def length(self, seq: int) -> int:
        return self._cells.length(seq)

    def decode(self, rows: Sequence[Row]) -> None:
        status = self._library.llama_decode(self._context, self._batch.fill(rows))
        if status:
            why = "no free KV cells" if status == 1 else "; ".join(take_errors()) or f"status {status}"
            raise EngineError(f"llama.cpp could not compute a batch of {len(rows)} rows: {why}")

    def new_sampler(self, sampling: Sampling, prompt: Sequence[int]) -> Any:
        if sampling.is_plain_greedy:
            return _GREEDY
        return build_chain(
            self._library, sampling, prompt, vocab_size=self.info.vocab_size, context=self.num_cells
        )

    def free_sampler(self, sampler: Any) -> None:
        if sampler is not _GREEDY:
            self._library.llama_sampler_free(sampler)

    def sample(self, row: int, sampler: Any) -> int:
        if sampler is _GREEDY:
            return int(self._logits(row).argmax())
        return int(self._library.llama_sampler_sample(sampler, self._context, row))

    def accept(self, sampler: Any, token: int) -> None:
        if sampler is not _GREEDY:
            self._library.llama_sampler_accept(sampler, token)

    def mask(self, row: int, allowed: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
        forbid(self._logits(row), allowed)

    def logprobs(self, row: int, token: int, top: int) -> tuple[float, tuple[tuple[int, float], ...]]:
        logits = self._logits(row)
        peak = logits.max()  # exponentials in single precision are five times as fast, and exact enough for their sum
        total = float(peak) + float(np.log(np.exp(logits - peak).sum(dtype=np.float64)))
        best = np.argpartition(logits, -top)[-top:] if top else np.empty(0, int)
        best = best[np.lexsort((best, -logits[best]))]
        rivals = tuple((int(t), float(logits[t]) - total) for t in best if logits[t] > -np.inf)
        return float(logits[token]) - total, rivals

    def set_threads(self, decode: int, prefill: int) -> None:
        self._library.llama_set_n_threads(self._context, decode, prefill)

    def close(self) -> None:
        if self._context:
            self._library.llama_free(self._context)
            self._library.llama_model_free(self._model)
            self._context = None

    def _logits(self, row: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A view into llama.cpp's own buffer; gone with the next decode."""
        pointer = self._library.llama_get_logits_ith(self._context, row)
        values: Any = self._logits_row.from_address(ctypes.addressof(pointer.contents))
        return np.frombuffer(values, np.float32)

    def _load_model(self, path: Path, options: LlamaOptions, on_progress: Callable[[float], bool]) -> Any:
        library = self._library
        params = library.llama_model_default_params()
        params.n_gpu_layers = 0
        params.load_mode = int(options.mmap) + 2 * int(options.mlock)  # NONE, MMAP, MLOCK, MMAP_MLOCK
        params.use_extra_bufts = options.extra_buffers and not options.exact

        def report(share: float, user_data: object) -> bool:
            return on_progress(share)

        callback = library.llama_progress_callback(report)
        params.progress_callback = callback
        model = library.llama_model_load_from_file(str(path).encode(), params)
        lines = take_errors()
        if not model:
            raise ModelError(load_failure(path.name, lines))
        if options.mlock and any("mlock" in line for line in lines):
            limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
            log.warning(
                "the weights could not be locked in RAM: this process may lock %s; put LimitMEMLOCK=infinity into the"
                " systemd unit (in a container, its host decides)",
                "all there is" if limit == resource.RLIM_INFINITY else f"{limit >> 20} MiB",
            )
        if library.llama_model_has_encoder(model) or not library.llama_model_has_decoder(model):
            raise ModelError(f"{path.name} does not generate text (an encoder); choose a model from `reame list`")
        return model

    def _open_context(self, path: Path, options: LlamaOptions) -> Any:
        library = self._library
        params = library.llama_context_default_params()
        params.n_ctx = options.num_cells
        params.n_batch = params.n_ubatch = options.max_rows
        params.n_seq_max = options.num_seqs + EXTRA_SEQS
        params.n_outputs_max = max(params.n_seq_max, min(options.max_sampled, options.max_rows))  # asserted by it
        params.n_threads, params.n_threads_batch = options.threads, options.prefill_threads
        params.flash_attn_type = int(options.flash_attention)
        params.type_k = params.type_v = getattr(library, f"GGML_TYPE_{options.kv_type.upper()}")
        params.offload_kqv = params.op_offload = False
        params.swa_full = params.kv_unified = True
        params.no_perf = True
        context = library.llama_init_from_model(self._model, params)
        lines = take_errors()
        if not context:
            why = lines[-1] if lines else "llama.cpp gave no reason"
            raise ModelError(
                f"no context of {options.num_cells} cells for {path.name}: {why}; lower engine.cells or engine.context"
            )
        return context


def forbid(logits: np.ndarray[Any, np.dtype[np.float32]], allowed: np.ndarray[Any, np.dtype[np.bool_]]) -> None:
    """-inf for what is not allowed. By index, of the fewer: half the time of a boolean mask with a large vocabulary."""
    if 2 * np.count_nonzero(allowed) > len(allowed):
        logits[np.flatnonzero(~allowed)] = -np.inf
        return
    places = np.flatnonzero(allowed)
    kept = logits[places]
    logits.fill(-np.inf)
    logits[places] = kept


class _Batch:
    """A llama_batch over arrays of our own, filled anew each step. One sequence id a row."""

    def __init__(self, library: Any, max_rows: int) -> None:
        self._tokens = (ctypes.c_int32 * max_rows)()
        self._positions = (ctypes.c_int32 * max_rows)()
        self._logits = (ctypes.c_int8 * max_rows)()
        self._num_seqs = (ctypes.c_int32 * max_rows)(*[1] * max_rows)
        self._seqs = (ctypes.c_int32 * max_rows)()
        pointer = ctypes.POINTER(ctypes.c_int32)
        stride = ctypes.sizeof(ctypes.c_int32)
        rows = [ctypes.cast(ctypes.addressof(self._seqs) + i * stride, pointer) for i in range(max_rows)]
        self._seq_rows = (pointer * max_rows)(*rows)
        self._batch = library.llama_batch(
            n_tokens=0, token=self._tokens, embd=None, pos=self._positions, n_seq_id=self._num_seqs,
            seq_id=self._seq_rows, logits=self._logits,
        )  # fmt: skip

    def fill(self, rows: Sequence[Row]) -> Any:
        count = len(rows)
        self._tokens[:count] = [row.token for row in rows]
        self._positions[:count] = [row.position for row in rows]
        self._seqs[:count] = [row.seq for row in rows]
        self._logits[:count] = [row.sampled for row in rows]
        self._batch.n_tokens = count
        return self._batch


def _model_info(library: Any, model: Any, vocab: Any, vocabulary: LlamaVocabulary) -> ModelInfo:
    bos, eos = library.llama_vocab_bos(vocab), library.llama_vocab_eos(vocab)
    template = library.llama_model_chat_template(model, None)
    fim = vocabulary.fim_tokens()
    marks = (fim.prefix, fim.suffix, fim.middle) if fim else ()
    description = ctypes.create_string_buffer(256)
    library.llama_model_desc(model, description, 256)
    return ModelInfo(
        name=metadata(library, model, "general.name"),
        vocab_size=vocabulary.size,
        context_trained=library.llama_model_n_ctx_train(model),
        eog_tokens=vocabulary.eog_tokens().union(marks),  # behind such a mark nothing is part of an answer
        bos_token=bos if bos >= 0 else None,
        adds_bos=bool(library.llama_vocab_get_add_bos(vocab)),
        bos_text=vocabulary.text(bos) if bos >= 0 else "",
        eos_text=vocabulary.text(eos) if eos >= 0 else "",
        chat_template=template.decode("utf-8", "replace") if template else None,
        size_bytes=library.llama_model_size(model),
        sliding_window=library.llama_model_n_swa(model),
        whole_state=bool(library.llama_model_is_recurrent(model) or library.llama_model_is_hybrid(model)),
        fim=fim,
        description=description.value.decode("utf-8", "replace"),
    )


def metadata(library: Any, model: Any, key: str) -> str:
    """A value of the model file's metadata as text, "" when it has none."""
    buffer = ctypes.create_string_buffer(1024)
    length = library.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
    return buffer.value.decode("utf-8", "replace") if length >= 0 else ""
