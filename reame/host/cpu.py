"""How much CPU this process may really use, read from /proc and /sys. `root` is where these are mounted.

Files that are missing or strange mean "not known" and never an error: containers, old kernels and other machines
leave out any of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from attrs import frozen

from reame.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_ROOT = Path("/")

_COMPILED = re.compile(
    r"pni|ssse3|sse4\w*|popcnt|abm|bmi[12]|movbe|adx|f16c|fma4?|xop|avx\w*|v?aes|v?pclmulqdq|gfni|sha_ni"
    r"|asimd\w*|fphp|atomics|sve\w*|sme\w*|i8mm|bf16"
)
"""Instruction sets that a compiler told `-march=native` may use; other CPU flags come and go with kernels.

AMX is not among them: compilers do not use it by themselves, and set-up builds llama.cpp without it.
"""

_BIG_CORE = 0.7
"""Share of the largest `cpu_capacity` from which a core counts as fast: prime and big cores, not the small ones."""


@frozen(kw_only=True)
class CpuShare:
    """The part of the machine that is this process's. `quota` is in CPUs, None when there is no limit."""

    cpus: tuple[int, ...]
    """Logical CPUs by the kernel's numbers: online and in the affinity mask. Never empty."""
    quota: float | None
    cores: int
    """Physical cores that `cpus` lie on; equal to their number where no SMT is seen, as in most VMs."""
    fast_cores: int | None
    """Of `cores` the performance ones on a hybrid CPU; None on any other."""

    @property
    def usable(self) -> float:
        """CPUs worth of time that can be had, at least a little."""
        return min(float(len(self.cpus)), self.quota or float("inf"))


@frozen
class Threads:
    """A number of threads and, in a sentence, why."""

    value: int
    reason: str


def cpu_share(root: Path = _ROOT) -> CpuShare:
    """Affinity, cgroup quota and topology as they are now."""
    cpus = _usable_cpus(root)
    siblings = _siblings(root, cpus)
    fast = _fast_cpus(root, cpus)
    return CpuShare(
        cpus=cpus,
        quota=_quota(root),
        cores=len(set(siblings.values())),
        fast_cores=len({siblings[cpu] for cpu in fast}) if fast and len(fast) < len(cpus) else None,
    )


def usable_cores(root: Path = _ROOT) -> float:
    """The least of affinity, online CPUs and cgroup quota, in CPUs: 1.5 is one and a half."""
    return cpu_share(root).usable


def default_threads(share: CpuShare) -> Threads:
    """Threads for llama.cpp: one a physical fast core, and no more than the quota feeds; at least 1.

    A thread too many is far worse than one too few: all wait at each barrier for the one that the quota stopped.
    """
    value, reason = len(share.cpus), f"this process may use {_count(len(share.cpus), 'CPU')}, no SMT seen"
    if share.cores < value:
        value, reason = share.cores, f"{len(share.cpus)} hardware threads are {_count(share.cores, 'physical core')}"
    if share.fast_cores is not None and share.fast_cores < value:
        value, reason = share.fast_cores, f"a hybrid CPU with {_count(share.fast_cores, 'performance core')}"
    if share.quota is not None and share.quota < value:
        value, reason = max(1, int(share.quota)), f"the cgroup quota is {share.quota:.4g} CPUs"
    return Threads(value, f"{_count(value, 'thread')}: {reason}")


def cpu_features(root: Path = _ROOT) -> frozenset[str]:
    """What every core can do, in the kernel's words; empty when /proc/cpuinfo does not tell."""
    cores = re.findall(r"^(?:flags|Features|isa)[ \t]*:[ \t]*(.*)$", _read(root, "proc/cpuinfo"), re.MULTILINE)
    return frozenset.intersection(*(frozenset(core.split()) for core in cores)) if cores else frozenset()


def missing_features(compiled: Iterable[str], present: frozenset[str]) -> tuple[str, ...]:
    """Instruction sets that llama.cpp may have been compiled for and this CPU lacks, sorted.

    `compiled` are all flags of the CPU it was built on. Empty when either side is not known.
    """
    needed = {feature for feature in compiled if _COMPILED.fullmatch(feature)}
    return tuple(sorted(needed - present)) if present else ()


def check_build(build_file: Path, root: Path = _ROOT) -> None:
    """Compare this CPU with the one that llama.cpp was built on, before its library is loaded and can only crash.

    `build_file` is JSON with the builder's `cpu_features`, written by set-up; without it, or with a damaged one, there
    is nothing to compare. Raises ModelError that names what is missing.
    """
    try:
        compiled = json.loads(build_file.read_bytes())["cpu_features"]
        missing = missing_features(compiled, cpu_features(root))
    except (OSError, ValueError, KeyError, TypeError):
        return
    if missing:
        raise ModelError(
            f"llama.cpp was built for a CPU with {', '.join(missing)}, which this one lacks: "
            "run ./scripts/setup on this machine to build it again"
        )


def _usable_cpus(root: Path) -> tuple[int, ...]:
    """Affinity without offline CPUs. lxcfs renumbers `online`, so of that file only the number counts."""
    online = _cpu_list(_read(root, "sys/devices/system/cpu/online"))
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", _read(root, "proc/self/status"), re.MULTILINE)
    cpus = [
        cpu
        for cpu in (_cpu_list(allowed[1]) if allowed else online)
        if _read(root, f"sys/devices/system/cpu/cpu{cpu}/online") != "0"
    ]
    return tuple(cpus[: len(online) or None]) or (0,)


def _siblings(root: Path, cpus: Iterable[int]) -> dict[int, frozenset[int]]:
    """For each of `cpus` the logical CPUs on its physical core, itself among them."""
    known: dict[int, frozenset[int]] = {}
    for cpu in cpus:
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        text = _read(root, f"{folder}/core_cpus_list") or _read(root, f"{folder}/thread_siblings_list")
        if text:
            known[cpu] = frozenset(_cpu_list(text))
    return {cpu: frozenset((cpu,)) for cpu in cpus} | (known or _siblings_of_cpuinfo(root, cpus))


def _siblings_of_cpuinfo(root: Path, cpus: Iterable[int]) -> dict[int, frozenset[int]]:
    """The same, for those of `cpus` whose socket and core /proc/cpuinfo tells."""
    groups: dict[tuple[str, str], set[int]] = {}
    for block in _read(root, "proc/cpuinfo").split("\n\n"):
        keys = dict(re.findall(r"^(processor|physical id|core id)\s*:\s*(\d+)$", block, re.MULTILINE))
        if len(keys) == 3:
            groups.setdefault((keys["physical id"], keys["core id"]), set()).add(int(keys["processor"]))
    return {cpu: frozenset(group) for group in groups.values() for cpu in group if cpu in cpus}


def _fast_cpus(root: Path, cpus: tuple[int, ...]) -> set[int]:
    """Those of `cpus` that are performance cores: Intel says it in a list, ARM by capacity. Empty when not told."""
    intel = set(_cpu_list(_read(root, "sys/devices/cpu_core/cpus")))
    if intel:
        return intel & set(cpus)
    capacity = {cpu: _number(_read(root, f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity")) for cpu in cpus}
    return {cpu for cpu in cpus if (capacity[cpu] or 0) >= _BIG_CORE * max(c or 1 for c in capacity.values())}


def _quota(root: Path) -> float | None:
    """The tightest CPU limit from this process's cgroup up to the top of what is mounted here, in CPUs."""
    limits = (_limit(root, folder) for folder in _cgroup_folders(root))
    return min((limit for limit in limits if limit is not None), default=None)


def _limit(root: Path, folder: PurePosixPath) -> float | None:
    quota, _, period = _read(root, folder / "cpu.max").partition(" ")
    if not quota:
        quota, period = _read(root, folder / "cpu.cfs_quota_us"), _read(root, folder / "cpu.cfs_period_us")
    time, length = _number(quota), _number(period)
    return time / length if time and length and time > 0 else None


def _cgroup_folders(root: Path) -> Iterator[PurePosixPath]:
    """Where the limits of this process may stand, innermost first, for v2 and for the `cpu` controller of v1."""
    mounts = list(_cgroup_mounts(root))
    for line in _read(root, "proc/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for kind, top, point in mounts:
            if kind != ("cpu" if "cpu" in controllers.split(",") else "cgroup2" if not controllers else None):
                continue
            inside = path[len(top) :] if path == top or path.startswith(top.rstrip("/") + "/") else ""
            folder = PurePosixPath(point.lstrip("/")) / inside.lstrip("/")
            yield from (parent for parent in (folder, *folder.parents) if parent.is_relative_to(point.lstrip("/")))


def _cgroup_mounts(root: Path) -> Iterator[tuple[str, str, str]]:
    """(`cgroup2` or `cpu`, the cgroup that is mounted, where) for each hierarchy that can limit CPU time."""
    for line in _read(root, "proc/self/mountinfo").splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2":
            yield "cgroup2", fields[3], fields[4]
        elif kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            yield "cpu", fields[3], fields[4]


def _cpu_list(text: str) -> list[int]:
    """`0-3,8` as numbers."""
    ranges = re.findall(r"(\d+)(?:-(\d+))?", text)
    return [cpu for first, last in ranges for cpu in range(int(first), int(last or first) + 1)]


def _read(root: Path, path: str | PurePosixPath) -> str:
    try:
        return (root / path).read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
