"""Loading libllama once per process, with its environment set before and its log under control."""

from __future__ import annotations

import os
import re
from collections import deque
from typing import TYPE_CHECKING, Any

from reame.engine import kernels
from reame.engine.spin import set_spin

if TYPE_CHECKING:
    from types import ModuleType

_ERROR_LINES: deque[str] = deque(maxlen=20)
_WARN, _ERROR, _CONTINUED = 3, 4, 5
_state: dict[str, Any] = {"level": 0}


def load_library(*, spin_count: int, exact: bool, own_kernels: bool) -> ModuleType:
    """Import `llama_cpp.llama_cpp` and return it; what the first call asks for holds for the process.

    `spin_count` as in `engine/spin.py`, `own_kernels` as in `engine/kernels.py`. `exact` switches off ggml's tiled
    kernel, which rounds otherwise from eight rows on. A value that the user has set in the environment is left alone.
    """
    if "library" not in _state:
        set_spin(spin_count)
        if exact:
            os.environ.setdefault("GGML_CPU_TILED_MM", "0")
        os.environ.setdefault("GGML_NO_BACKTRACE", "1")  # or an abort of ggml's starts gdb
        own = kernels.load(kernels.library_file()) if own_kernels else None
        import llama_cpp.llama_cpp as library

        if own:
            library._lib.ggml_cpu_init()  # fills the tables that conversions look into
            kernels.switch_on(own, library._lib)
        callback = library.llama_log_callback(_on_log)
        library.llama_log_set(callback, None)
        library.llama_backend_init()
        _state.update(library=library, callback=callback)
    module: ModuleType = _state["library"]
    return module


def take_errors() -> list[str]:
    """llama.cpp's warnings and errors since the last call, the last twenty lines."""
    lines = "".join(_ERROR_LINES).splitlines()
    _ERROR_LINES.clear()
    return [line for line in (re.sub(r"^\w+: ", "", line).strip() for line in lines) if line]


def _on_log(level: int, text: bytes, user_data: object) -> None:
    if level != _CONTINUED:
        _state["level"] = level
    if _state["level"] in (_WARN, _ERROR):
        _ERROR_LINES.append(text.decode("utf-8", "replace"))
