"""The key of a built wheel: it changes with all that shapes the machine code, and with nothing else."""

from __future__ import annotations

import importlib
import os
import re
import shlex
from typing import TYPE_CHECKING, Any

import pytest
from machines import basis, oracle_a1, plant, v1_nested, vps_with_quota
from scripts_checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

X86 = "processor : 0\nflags\t\t: fpu avx2 avx512f\nprocessor : 1\nflags\t\t: fpu avx512f avx2\n"
AMX = X86.replace("fpu", "fpu amx_int8")


@pytest.fixture
def lib(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "lib"))
    return importlib.import_module


def key(lib: Any, version: str = "1.0", cpuinfo: str = X86, **environ: str) -> str:
    return str(lib("recipe").recipe_for(version, environ, cpuinfo=cpuinfo).key)


def test_key_changes_with_all_that_shapes_the_build(lib: Any, tmp_path: Path) -> None:
    compilers = []
    for release in ("12.2", "12.3"):
        compilers.append(tmp_path / release)
        compilers[-1].write_text(f"#!/bin/sh\necho gcc {release}\n")
        compilers[-1].chmod(0o755)
    keys = [
        key(lib),
        key(lib, version="1.1"),
        key(lib, cpuinfo=AMX),
        key(lib, cpuinfo=X86.replace(" avx512f", "")),
        key(lib, CMAKE_ARGS="-DGGML_BLAS=ON"),
        key(lib, CXXFLAGS="-O2"),
        key(lib, SKBUILD_CMAKE_BUILD_TYPE="Debug"),
        *(key(lib, CC=str(compiler)) for compiler in compilers),
    ]
    assert len(set(keys)) == len(keys)
    compilers[0].write_text(compilers[0].read_text().replace("12.2", "12.2.1"))
    assert key(lib, CC=str(compilers[0])) not in keys


def test_key_does_not_change_with_what_does_not(lib: Any) -> None:
    same = {
        key(lib),
        key(lib, cpuinfo=X86.replace("avx2 avx512f", "avx512f avx2")),
        key(lib, CMAKE_BUILD_PARALLEL_LEVEL="1", PIP_TIMEOUT="3", PATH="/elsewhere", LANG="it_IT"),
    }
    assert len(same) == 1


def test_a_feature_counts_only_when_every_core_has_it(lib: Any) -> None:
    arm = "processor : 0\nFeatures : fp asimd sve\nprocessor : 1\nFeatures : fp asimd\n"
    assert lib("recipe").cpu_features(arm) == ("asimd", "fp")
    assert lib("recipe").cpu_features("model name : unknown\n") == ()


def test_amx_is_left_out_where_the_cpu_has_it_and_the_users_flags_stay(lib: Any) -> None:
    args = lib("recipe").cmake_args
    assert args(("avx2",), {}) == ""
    assert args(("amx_int8",), {}) == "-DCMAKE_C_FLAGS=-U__AMX_INT8__ -DCMAKE_CXX_FLAGS=-U__AMX_INT8__"
    theirs = {"CFLAGS": "-O2 -g", "CMAKE_ARGS": "-DGGML_BLAS=ON"}
    assert args(("avx2",), theirs) == "-DGGML_BLAS=ON"
    assert shlex.split(args(("amx_int8",), theirs)) == [
        "-DCMAKE_C_FLAGS=-O2 -g -U__AMX_INT8__",
        "-DCMAKE_CXX_FLAGS=-U__AMX_INT8__",
        "-DGGML_BLAS=ON",
    ]


def test_the_pinned_version_is_read_from_the_project(lib: Any) -> None:
    project = b'[project]\ndependencies = ["trio>=1", "llama-cpp-python==0.9.1"]\n'
    assert lib("set_up").pinned_version(project) == "0.9.1"
    assert re.fullmatch(r"[\d.]+", lib("set_up").pinned_version((ROOT / "pyproject.toml").read_bytes()))


def test_memory_bounds_the_number_of_compilers(lib: Any, tmp_path: Path) -> None:
    jobs = lib("llama_wheel").build_jobs
    assert jobs(tmp_path) == len(os.sched_getaffinity(0))  # nothing is known
    for available, number in {400_000: 1, 5_000_000: 4, 900_000_000: 64}.items():
        plant(tmp_path, {"proc/meminfo": f"MemAvailable: {available} kB\n"})
        assert jobs(tmp_path, cores=64) == number


@pytest.mark.parametrize(
    ("machine", "number"),
    [
        (oracle_a1, 21),  # 23.2 GB, no limit
        (vps_with_quota, 2),  # 2 CPUs, of a slice above; 2.8 GB, without the page cache
        (v1_nested, 1),  # 1.5 CPUs and 1.5 GB
    ],
)
def test_cgroups_bound_the_number_of_compilers(
    lib: Any, tmp_path: Path, machine: Callable[[Path], Path], number: int
) -> None:
    assert lib("llama_wheel").build_jobs(machine(tmp_path), cores=64) == number


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("cpus", "gb", "number"), [(2.0, 30, 2), (2.5, 30, 3), (16.0, 4, 3), (0.5, 30, 1)])
def test_limits_of_a_container_bound_the_number_of_compilers(
    lib: Any, tmp_path: Path, *, version: int, cpus: float, gb: int, number: int
) -> None:
    """Its own group is the top of what is mounted; v1 names it by the host's path."""
    time, limit = f"{cpus * 100_000:.0f}", str(gb << 30)
    top = "sys/fs/cgroup"
    if version == 2:
        own = "0::/\n"
        limits = {f"{top}/cpu.max": f"{time} 100000\n", f"{top}/memory.max": limit, f"{top}/memory.current": "99999999"}
    else:
        own = "4:cpu,cpuacct:/docker/1f\n3:memory:/docker/1f\n"
        limits = {f"{top}/cpu/cpu.cfs_quota_us": time, f"{top}/cpu/cpu.cfs_period_us": "100000"}
        limits |= {f"{top}/memory/memory.limit_in_bytes": limit, f"{top}/memory/memory.usage_in_bytes": "99999999"}
    plant(tmp_path, {**basis(cpus=64, ram_gb=250, free_gb=200), "proc/self/cgroup": own, **limits})
    assert lib("llama_wheel").build_jobs(tmp_path, cores=64) == number
