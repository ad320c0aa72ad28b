"""Texts to vectors with llama.cpp: a model and a context of their own. Decode thread only, like the engine.

The rows of a text are fed piece by piece, so that other work gets in between; their vectors are pooled here, by what
the model's file says (mean, first or last row; mean when it says nothing), and brought to length 1.
"""

from __future__ import annotations

import ctypes
import logging
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from reame.engine.canary import main
from reame.engine.llama import metadata
from reame.engine.llama_failure import load_failure
from reame.engine.llama_library import load_library, take_errors
from reame.engine.llama_vocabulary import LlamaVocabulary
from reame.errors import EngineError, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from reame.engine.base import Vocabulary
    from reame.engine.llama import LlamaOptions

PIECE_ROWS = 128
"""Rows fed at once by models that can be fed piecemeal: some tens of milliseconds of a small model."""
_MEAN, _FIRST, _LAST = 1, 2, 3
_POOLING = {"": _MEAN, "0": _MEAN, "1": _MEAN, "2": _FIRST, "3": _LAST}

log = logging.getLogger(__name__)


class LlamaEmbedder:
    """`options.num_cells` is the longest text in tokens. Raises ModelError when the file cannot be used for this.

    One text at a time: `begin`, `feed` its tokens in pieces of at most `piece_rows`, `vector`.
    """

    def __init__(self, path: Path, options: LlamaOptions) -> None:
        self._library = load_library(
            spin_count=options.spin_count, exact=options.exact, own_kernels=options.own_kernels
        )
        take_errors()
        self._model = self._load(path, options)
        self.context = min(options.num_cells, self._library.llama_model_n_ctx_train(self._model) or options.num_cells)
        self._context = self._open(path, options)
        self._memory = self._library.llama_get_memory(self._context)
        vocabulary = LlamaVocabulary(self._library, self._library.llama_model_get_vocab(self._model))
        self.vocabulary: Vocabulary = vocabulary
        self.vocab_size = vocabulary.size
        self.size: int = self._library.llama_model_n_embd(self._model)
        self.piece_rows = min(PIECE_ROWS, self.context) if self._memory else self.context
        self._pooling = self._read_pooling(path)
        self._row = ctypes.c_float * self.size
        self._position = 0
        self._sum = np.zeros(self.size)

    def begin(self) -> None:
        if self._memory:
            self._library.llama_memory_clear(self._memory, True)
        self._position = 0
        self._sum = np.zeros(self.size)

    def feed(self, tokens: Sequence[int]) -> None:
        """The next tokens of the text. Raises EngineError."""
        library, count = self._library, len(tokens)
        batch = library.llama_batch_init(count, 0, 1)
        try:
            batch.n_tokens = count
            for i, token in enumerate(tokens):
                batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.seq_id[i][0] = token, self._position + i, 1, 0
                batch.logits[i] = 1
            compute = library.llama_decode if self._memory else library.llama_encode
            if compute(self._context, batch):
                raise EngineError(f"llama.cpp could not embed {count} tokens: {'; '.join(take_errors())}")
        finally:
            library.llama_batch_free(batch)
        self._pool(count)
        self._position += count

    def vector(self) -> NDArray[np.float32]:
        """Of all that was fed since `begin`: float32, length 1. Raises EngineError when it has no direction."""
        length = float(np.linalg.norm(self._sum))
        if not (np.isfinite(length) and length > 0):
            raise EngineError("the embeddings model gave no finite vector")
        return (self._sum / length).astype(np.float32)

    def close(self) -> None:
        if self._context:
            self._library.llama_free(self._context)
            self._library.llama_model_free(self._model)
            self._context = None

    def _pool(self, count: int) -> None:
        if self._pooling == _MEAN:
            self._sum += sum(map(self._output, range(count)))
        elif self._pooling == _LAST:
            self._sum = self._output(count - 1)
        elif self._position == 0:
            self._sum = self._output(0)

    def _output(self, row: int) -> NDArray[np.float64]:
        pointer = self._library.llama_get_embeddings_ith(self._context, row)
        if not pointer:
            raise EngineError("llama.cpp has no embedding for a row")
        values: Any = self._row.from_address(ctypes.addressof(pointer.contents))
        return np.frombuffer(values, np.float32).astype(np.float64)

    def _load(self, path: Path, options: LlamaOptions) -> Any:
        params = self._library.llama_model_default_params()
        params.n_gpu_layers = 0
        params.load_mode = int(options.mmap)
        params.use_extra_bufts = options.extra_buffers and not options.exact
        model = self._library.llama_model_load_from_file(str(path).encode(), params)
        lines = take_errors()
        if not model:
            raise ModelError(load_failure(path.name, lines))
        return model

    def _open(self, path: Path, options: LlamaOptions) -> Any:
        params = self._library.llama_context_default_params()
        params.n_ctx = params.n_batch = params.n_ubatch = params.n_outputs_max = self.context
        params.n_seq_max = 1
        params.n_threads, params.n_threads_batch = options.threads, options.prefill_threads
        params.embeddings = True
        params.pooling_type = 0
        params.offload_kqv = params.op_offload = False
        params.no_perf = True
        context = self._library.llama_init_from_model(self._model, params)
        lines = take_errors()
        if not context:
            raise ModelError(f"no context for embeddings of {path.name}: {'; '.join(lines[-1:])}")
        return context

    def _read_pooling(self, path: Path) -> int:
        kind = metadata(self._library, self._model, "general.architecture")
        name = metadata(self._library, self._model, f"{kind}.pooling_type")
        if name not in _POOLING:
            raise ModelError(f"{path.name} ranks texts and gives no vectors: set embeddings.model to another model")
        if name == "":
            log.warning("%s does not say how to pool its vectors: the mean of all tokens is taken", path.name)
        return _POOLING[name]


def try_embedder(path: Path, options: LlamaOptions) -> None:
    """Load and compute. Raises ReameError in words, or takes this process down."""
    embedder = LlamaEmbedder(path, options)
    for count in (1, embedder.piece_rows):
        embedder.begin()
        embedder.feed([17 * i % embedder.vocab_size for i in range(count)])
        embedder.vector()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], try_embedder))
