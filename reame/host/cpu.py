"""How much CPU this process may really use, read from /proc and /sys."""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from reame.host.cgroup import cpu_quota
from reame.host.reading import ROOT, cpu_list, number, read

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

_BIG_CORE = 0.7
"""Share of the largest `cpu_capacity` from which a core counts as fast: prime and big cores, not the small ones."""

_FEW = 3
"""CPUs of a quota below which half a one is worth a thread that decodes."""
_WORTH_IT = 1.1
"""Times the whole CPUs of a quota, from which on its rest is worth a thread that reads prompts."""


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
    numa_nodes: int = 1
    """That `cpus` lie on."""

    @property
    def usable(self) -> float:
        """CPUs worth of time that can be had, at least a little."""
        return min(float(len(self.cpus)), self.quota or float("inf"))

    @property
    def most_threads(self) -> int:
        """More would only wait for each other."""
        return ceil(self.usable)


@frozen
class Threads:
    """Numbers of threads that decode (`value`) and that read prompts, and, in a sentence, why."""

    value: int
    reason: str
    prefill: int = Factory(lambda self: self.value, takes_self=True)


def cpu_share(root: Path = ROOT) -> CpuShare:
    """Affinity, cgroup quota and topology as they are now."""
    cpus = _usable_cpus(root)
    siblings = _siblings(root, cpus)
    fast = _fast_cpus(root, cpus)
    return CpuShare(
        cpus=cpus,
        quota=cpu_quota(root),
        cores=len(set(siblings.values())),
        fast_cores=len({siblings[cpu] for cpu in fast}) if fast and len(fast) < len(cpus) else None,
        numa_nodes=_numa_nodes(root, set(cpus)),
    )


def online_cpus(root: Path = ROOT) -> int:
    """Logical CPUs of the machine or container, whether this process may use them or not; at least 1."""
    return max(1, len(cpu_list(read(root, "sys/devices/system/cpu/online"))))


def default_threads(share: CpuShare) -> Threads:
    """Threads for llama.cpp: one a physical fast core, and no more than the quota feeds; at least 1.

    A thread too many is far worse than one too few: all wait at each barrier for the one that the quota stopped. A part
    of a CPU is worth a thread where it adds more than the stops cost, about a tenth: to prompts soon, to decoding,
    which the memory slows, only where there are few. Measured under quotas of 1.25 to 1.9 (tests/drill/threads.py).
    """
    value, reason = len(share.cpus), f"this process may use {_count(len(share.cpus), 'CPU')}, no SMT seen"
    if share.cores < value:
        value, reason = share.cores, f"{len(share.cpus)} hardware threads are {_count(share.cores, 'physical core')}"
    if share.fast_cores is not None and share.fast_cores < value:
        value, reason = share.fast_cores, f"a hybrid CPU with {_count(share.fast_cores, 'performance core')}"
    prefill, quota = value, share.quota
    if quota is not None and quota < value:
        whole, reason = max(1, int(quota)), f"the cgroup quota is {_count(quota, 'CPU')}"
        value = max(1, int(quota + 0.5)) if quota < _FEW else whole
        prefill = ceil(quota) if quota > _WORTH_IT * whole else whole
    return Threads(value, f"{_count(value, 'thread')}: {reason}", prefill)


def _usable_cpus(root: Path) -> tuple[int, ...]:
    """Affinity without offline CPUs. lxcfs renumbers `online`, so of that file only the number counts."""
    online = cpu_list(read(root, "sys/devices/system/cpu/online"))
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", read(root, "proc/self/status"), re.MULTILINE)
    cpus = [
        cpu
        for cpu in (cpu_list(allowed[1]) if allowed else online)
        if read(root, f"sys/devices/system/cpu/cpu{cpu}/online") != "0"
    ]
    return tuple(cpus[: len(online) or None]) or (0,)


def _siblings(root: Path, cpus: Iterable[int]) -> dict[int, frozenset[int]]:
    """For each of `cpus` the logical CPUs on its physical core, itself among them."""
    known: dict[int, frozenset[int]] = {}
    for cpu in cpus:
        folder = f"sys/devices/system/cpu/cpu{cpu}/topology"
        text = read(root, f"{folder}/core_cpus_list") or read(root, f"{folder}/thread_siblings_list")
        if text:
            known[cpu] = frozenset(cpu_list(text))
    return {cpu: frozenset((cpu,)) for cpu in cpus} | (known or _siblings_of_cpuinfo(root, cpus))


def _siblings_of_cpuinfo(root: Path, cpus: Iterable[int]) -> dict[int, frozenset[int]]:
    """The same, for those of `cpus` whose socket and core /proc/cpuinfo tells."""
    groups: dict[tuple[str, str], set[int]] = {}
    for block in read(root, "proc/cpuinfo").split("\n\n"):
        keys = dict(re.findall(r"^(processor|physical id|core id)\s*:\s*(\d+)$", block, re.MULTILINE))
        if len(keys) == 3:
            groups.setdefault((keys["physical id"], keys["core id"]), set()).add(int(keys["processor"]))
    return {cpu: frozenset(group) for group in groups.values() for cpu in group if cpu in cpus}


def _fast_cpus(root: Path, cpus: tuple[int, ...]) -> set[int]:
    """Those of `cpus` that are performance cores: Intel says it in a list, ARM by capacity. Empty when not told."""
    intel = set(cpu_list(read(root, "sys/devices/cpu_core/cpus")))
    if intel:
        return intel & set(cpus)
    capacity = {cpu: number(read(root, f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity")) for cpu in cpus}
    return {cpu for cpu in cpus if (capacity[cpu] or 0) >= _BIG_CORE * max(c or 1 for c in capacity.values())}


def _numa_nodes(root: Path, cpus: set[int]) -> int:
    """Those that have any of `cpus`; 1 when nothing is told."""
    folder = "sys/devices/system/node"
    nodes = (cpu_list(read(root, f"{folder}/node{node}/cpulist")) for node in cpu_list(read(root, f"{folder}/online")))
    return max(1, sum(not cpus.isdisjoint(node) for node in nodes))


def _count(number: float, thing: str) -> str:
    return f"{number:.4g} {thing}{'' if number == 1 else 's'}"
