"""Builds reame/kernels/ into .venv/lib, by the compiler of llama.cpp, which computes where that fails."""

from __future__ import annotations

import hashlib
import shlex
import subprocess
from typing import TYPE_CHECKING

from console import say

if TYPE_CHECKING:
    from pathlib import Path

    from recipe import Recipe

NEEDED = {"avx2", "fma", "f16c"}
FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-fno-semantic-interposition", "-shared")


def key(root: Path, recipe: Recipe) -> str:
    """Of all that decides what is built; empty where the kernels have no code for this CPU."""
    folder = root / "reame" / "kernels"
    if not NEEDED.issubset(recipe.cpu_features) or not folder.is_dir():
        return ""
    digest = hashlib.sha256(recipe.key.encode())
    for source in sorted(folder.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()[:16]


def build(root: Path, venv: Path, recipe: Recipe) -> None:
    """Seconds. A failure is said in a line and leaves no library."""
    library = venv / "lib" / f"reame-kernels-{recipe.version}.so"
    part = library.with_suffix(".part")
    library.unlink(missing_ok=True)
    headers = next(venv.glob("lib/python*/site-packages/include"), venv)
    folder = root / "reame" / "kernels"
    sources = map(str, sorted(folder.glob("*.cpp")))
    exports = f"-Wl,--version-script={folder / 'exports.map'}"
    command = [*shlex.split(recipe.cxx), *FLAGS, exports, f"-I{headers}", *sources, "-o", str(part)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        fault = next((line for line in done.stderr.splitlines() if "error" in line), f"status {done.returncode}")
        say(f"warning: no matrix kernels, so llama.cpp computes all: {fault}")
        part.unlink(missing_ok=True)
        return
    part.replace(library)
