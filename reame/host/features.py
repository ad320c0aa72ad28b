"""What this CPU can do against what llama.cpp was compiled for: said before its library is loaded and crashes."""

from __future__ import annotations

import importlib.util
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reame.errors import ModelError
from reame.host.cpuid import denied_features
from reame.host.library import compiled_features
from reame.host.reading import ROOT, read

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMPILED = re.compile(
    r"pni|ssse3|sse4\w*|popcnt|abm|bmi[12]|movbe|adx|f16c|fma4?|xop|avx\w*|v?aes|v?pclmulqdq|gfni|sha_ni"
    r"|asimd\w*|fphp|atomics|sve\w*|sme\w*|i8mm|bf16"
)
"""Instruction sets that a compiler told `-march=native` may use; other CPU flags come and go with kernels.

AMX is not among them: compilers do not use it by themselves, and set-up builds llama.cpp without it.
"""


def cpu_features(root: Path = ROOT) -> frozenset[str]:
    """What every core can do, in the kernel's words; empty when /proc/cpuinfo does not tell.

    On this machine without what the processor itself denies: an emulator shows the host's /proc/cpuinfo.
    """
    cores = re.findall(r"^(?:flags|Features|isa)[ \t]*:[ \t]*(.*)$", read(root, "proc/cpuinfo"), re.MULTILINE)
    told = frozenset.intersection(*(frozenset(core.split()) for core in cores)) if cores else frozenset()
    return told - denied_features() if root == ROOT else told


def missing_features(compiled: Iterable[str], present: frozenset[str]) -> tuple[str, ...]:
    """Instruction sets that llama.cpp may have been compiled for and this CPU lacks, sorted.

    `compiled` are all flags of the CPU it was built on. Empty when either side is not known.
    """
    needed = {feature for feature in compiled if _COMPILED.fullmatch(feature)}
    return tuple(sorted(needed - present)) if present else ()


def llama_library() -> Path | None:
    """Where the kernels of the installed llama.cpp are, found without loading anything; None: not installed."""
    found = importlib.util.find_spec("llama_cpp")
    library = Path(found.origin).parent / "lib" / "libggml-cpu.so" if found and found.origin else None
    return library if library is not None and library.exists() else None


def check_build(build_file: Path, root: Path = ROOT, *, library: Path | None = None) -> None:
    """Compare this CPU with what llama.cpp was built for. Raises ModelError that names what is missing.

    `build_file` is JSON with the builder's `cpu_features`, written by set-up; a `library` that came from elsewhere
    tells by itself what it was compiled with. What is not there, or damaged, is not compared.
    """
    missing = set(missing_features(compiled_features(library) if library else (), cpu_features(root)))
    with suppress(OSError, ValueError, KeyError, TypeError):
        missing.update(missing_features(json.loads(build_file.read_bytes())["cpu_features"], cpu_features(root)))
    if missing:
        raise ModelError(
            f"llama.cpp was built for a CPU with {', '.join(sorted(missing))}, which this one lacks: "
            "run ./scripts/setup on this machine to build it again"
        )
