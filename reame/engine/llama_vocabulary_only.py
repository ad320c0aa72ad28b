"""A model's tokenizer without its weights: a second or less, and little memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.engine.llama_failure import load_failure
from reame.engine.llama_library import load_library, take_errors
from reame.engine.llama_vocabulary import LlamaVocabulary
from reame.engine.spin import FIXED
from reame.errors import ModelError

if TYPE_CHECKING:
    from pathlib import Path


def load_vocabulary(path: Path) -> LlamaVocabulary:
    """It stays in memory until the process ends. ModelError when the file cannot be read."""
    library = load_library(spin_count=FIXED, exact=False, own_kernels=True)
    take_errors()
    params = library.llama_model_default_params()
    params.vocab_only = True
    params.n_gpu_layers = 0
    model = library.llama_model_load_from_file(str(path).encode(), params)
    lines = take_errors()
    if not model:
        raise ModelError(load_failure(path.name, lines))
    return LlamaVocabulary(library, library.llama_model_get_vocab(model))
