"""What a build of llama-cpp-python depends on, and the key of the wheel directory that follows from it.

pip's own wheel cache does not look at build flags, so it would hand out a wheel that was built with others. Here the
key is a hash of everything that shapes the machine code: another flag, compiler or CPU is another wheel.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from console import Refusal

if TYPE_CHECKING:
    from collections.abc import Mapping

INSTALL_A_COMPILER = "on Debian: apt install build-essential"
SHAPING_VARIABLES = {"CC", "CXX", "CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS"}
SPEED_VARIABLES = {"CMAKE_BUILD_PARALLEL_LEVEL"}


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """All that shapes the built wheel. Equal recipes give interchangeable wheels."""

    version: str
    python_tag: str
    machine: str
    cpu_features: tuple[str, ...]
    c: str
    cxx: str
    compiler_versions: tuple[str, str]
    cmake_args: str
    environment: tuple[tuple[str, str], ...]

    @property
    def key(self) -> str:
        digest = hashlib.sha256(self.as_json().encode()).hexdigest()
        return f"{self.version}-{self.python_tag}-{self.machine}-{digest[:16]}"

    def as_json(self) -> str:
        return json.dumps(asdict(self), indent=1, sort_keys=True)


def recipe_for(version: str, environ: Mapping[str, str], *, cpuinfo: str) -> Recipe:
    """The recipe for this machine; `cpuinfo` is the text of /proc/cpuinfo. Refusal when there is no compiler."""
    features = cpu_features(cpuinfo)
    c = compiler("CC", ("gcc", "cc", "clang"), environ)
    cxx = compiler("CXX", ("g++", "c++", "clang++"), environ)
    return Recipe(
        version=version,
        python_tag=f"cp{sys.version_info.major}{sys.version_info.minor}",
        machine=platform.machine(),
        cpu_features=features,
        c=c,
        cxx=cxx,
        compiler_versions=(compiler_version(c), compiler_version(cxx)),
        cmake_args=cmake_args(features, environ),
        environment=tuple(sorted((name, value) for name, value in environ.items() if shapes_the_build(name))),
    )


def cpu_features(cpuinfo: str) -> tuple[str, ...]:
    """The features that every core has, sorted: x86 `flags`, ARM `Features`, RISC-V `isa`."""
    cores = re.findall(r"^(?:flags|Features|isa)[ \t]*:[ \t]*(.*)$", cpuinfo, re.MULTILINE)
    return tuple(sorted(set.intersection(*(set(core.split()) for core in cores)))) if cores else ()


def cmake_args(features: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """Our flags, then the user's CMAKE_ARGS, which win.

    ggml's AMX kernels crash at the first llama_decode of two or more tokens (ggml-org/llama.cpp #20824), so on a CPU
    that has AMX they are left out. -DCMAKE_C_FLAGS takes the place of CFLAGS, therefore it repeats the user's.
    """
    flags = []
    if "amx_int8" in features:
        for language in ("C", "CXX"):
            value = f"{environ.get(f'{language}FLAGS', '')} -U__AMX_INT8__".strip()
            flags.append(shlex.quote(f"-DCMAKE_{language}_FLAGS={value}"))
    return " ".join([*flags, environ.get("CMAKE_ARGS", "")]).strip()


def shapes_the_build(name: str) -> bool:
    """Whether an environment variable changes what is built. CMAKE_ARGS does too, but it is a field of its own."""
    if name in SPEED_VARIABLES or name == "CMAKE_ARGS":
        return False
    return name in SHAPING_VARIABLES or name.startswith(("CMAKE_", "SKBUILD_"))


def compiler(variable: str, names: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """The command in the user's CC or CXX, else the first of `names` on PATH. Refusal when there is none."""
    if wanted := environ.get(variable, "").strip():
        if shutil.which(shlex.split(wanted)[0]) is None:
            raise Refusal(f"{variable} is `{wanted}`, which is not on PATH")
        return wanted
    for name in names:
        if shutil.which(name):
            return name
    language = "C" if variable == "CC" else "C++"
    raise Refusal(f"no {language} compiler, and llama.cpp is built for each machine: {INSTALL_A_COMPILER}")


def compiler_version(command: str) -> str:
    done = subprocess.run([*shlex.split(command), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[0]


def compiles(command: str, language: str) -> bool:
    """Whether the compiler makes a program; without the C library's headers (a package of its own) it does not."""
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [*shlex.split(command), "-x", language, "-", "-o", f"{scratch}/program"],
            input=b"#include <math.h>\nint main() { return 0; }\n",
            capture_output=True,
            check=False,
        )
    return done.returncode == 0
