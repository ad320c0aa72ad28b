"""What the CPU can do against what llama.cpp was compiled for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from machines import plant

from reame.errors import ModelError
from reame.host.features import check_build, cpu_features, llama_library, missing_features
from reame.host.library import compiled_features


def test_features_are_those_of_every_core(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/cpuinfo": "processor: 0\nflags\t: fpu sse avx2\n\nprocessor: 1\nflags\t: sse avx2 rtm\n"})
    assert cpu_features(tmp_path) == {"sse", "avx2"}
    plant(tmp_path, {"proc/cpuinfo": "processor\t: 0\nFeatures\t: fp asimd asimddp\n"})
    assert cpu_features(tmp_path) == {"fp", "asimd", "asimddp"}


def test_missing_are_only_what_a_compiler_uses() -> None:
    here = frozenset({"sse", "avx"})
    assert missing_features(["sse", "avx", "rtm", "md_clear", "amx_int8"], here) == ()
    assert missing_features(["avx512_vnni", "fma", "avx2", "avx"], here) == ("avx2", "avx512_vnni", "fma")
    assert missing_features(["avx2"], frozenset()) == ()


def test_a_build_for_another_cpu_is_refused_by_name(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/cpuinfo": "flags\t: sse4_2 avx\n"})
    build = tmp_path / "set-up.json"
    check_build(build, tmp_path)
    build.write_text(json.dumps({"cpu_features": ["avx", "avx2", "fma"]}))
    with pytest.raises(ModelError, match=r"with avx2, fma, which this one lacks: run \./scripts/setup"):
        check_build(build, tmp_path)
    for damaged in ("", "[]", "{}", '{"cpu_features": 1}', '{"cpu_features": [{}]}', "\xff"):
        build.write_text(damaged, encoding="latin-1")
        check_build(build, tmp_path)


def test_nothing_readable_is_no_feature(tmp_path: Path) -> None:
    assert cpu_features(tmp_path) == frozenset()


def test_the_installed_library_tells_what_it_was_compiled_with() -> None:
    """Read from its machine code, and the same as what it says of itself once it is loaded."""
    library = llama_library()
    assert library is not None
    said = subprocess.run(
        [sys.executable, "-c", "import llama_cpp.llama_cpp as l; print(l.llama_print_system_info().decode())"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    names = {"AVX2": "avx2", "AVX512": "avx512f", "F16C": "f16c", "FMA": "fma", "NEON": "asimd", "DOTPROD": "asimddp"}
    told = {word for name, word in names.items() if f" {name} = 1" in said}
    assert told
    assert compiled_features(library) & set(names.values()) == told


def test_a_library_for_another_cpu_is_refused_without_a_set_up_file(tmp_path: Path) -> None:
    library = llama_library()
    assert library is not None
    plant(tmp_path, {"proc/cpuinfo": "flags\t: sse4_2 popcnt\n"})
    with pytest.raises(ModelError, match=r"for a CPU with .*(avx2|asimd).*, which this one lacks"):
        check_build(tmp_path / "none", tmp_path, library=library)
    check_build(tmp_path / "none", library=library)


@pytest.mark.parametrize("damage", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(100), b"MZ" * 500])
def test_what_is_no_library_tells_nothing(tmp_path: Path, damage: bytes) -> None:
    file = tmp_path / "libggml-cpu.so"
    file.write_bytes(damage)
    assert compiled_features(file) == frozenset()
    assert compiled_features(tmp_path / "gone") == frozenset()


def test_a_cut_library_tells_nothing_or_less(tmp_path: Path) -> None:
    library = llama_library()
    assert library is not None
    data, file = library.read_bytes(), tmp_path / "cut.so"
    for keep in (100, 5_000, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:keep])
        assert compiled_features(file) <= compiled_features(library)


def test_this_cpu_can_what_the_kernel_says() -> None:
    """The processor, asked directly, denies nothing of what the kernel lists: no emulator here."""
    kernel = Path("/proc/cpuinfo").read_text()
    assert all(feature in kernel.split() for feature in cpu_features())
    assert ("avx2" in kernel.split()) == ("avx2" in cpu_features())
