"""What is wrong with, or special about, a machine, from what its kernel says. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.doctor.advice import Finding, Level
from reame.doctor.words import count, percent, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.host.probe import Machine

_STEAL, _PRESSURE, _THROTTLED = 0.03, 0.1, 0.05
"""Shares from which they are worth a word."""
_SWAPPED = 0.1
_LITTLE_DISK = 2 << 30
_LITTLE_RAM = 2 << 30


def machine_findings(machine: Machine) -> Iterator[Finding]:
    """The gravest first."""
    yield from _instruction_sets(machine)
    yield from _share_of_the_cpu(machine)
    yield from _company(machine)
    yield from _memory(machine)
    yield from _storage(machine)
    yield from _cloud(machine)


def _instruction_sets(machine: Machine) -> Iterator[Finding]:
    if machine.missing:
        yield Finding(
            Level.FAULT,
            f"llama.cpp was built for a CPU with {', '.join(machine.missing)}, which this one lacks: it would crash",
            "run ./scripts/setup on this machine to build it again",
        )
    features = machine.features
    if machine.place.machine == "x86_64" and features and "avx2" not in features:
        yield Finding(
            Level.WARNING,
            "this CPU has no AVX2, so that everything is several times slower",
            "choose another VM type, or a model of at most 1B; in a VM of your own pass the host's CPU through",
        )
    if machine.place.machine == "aarch64" and features and "asimddp" not in features:
        yield Finding(
            Level.WARNING, "this CPU has no dot product instructions (asimddp): prompts are read slowly",
            "take a small model",
        )  # fmt: skip
    unused = features & {"avx2", "avx512f", "asimddp", "i8mm"} - machine.compiled
    if machine.compiled and unused:
        yield Finding(
            Level.WARNING,
            f"llama.cpp was built without {', '.join(sorted(unused))}, which this CPU has",
            "run ./scripts/setup on this machine to build it for this CPU",
        )


def _share_of_the_cpu(machine: Machine) -> Iterator[Finding]:
    share = machine.share
    if share.quota is not None and share.quota < len(share.cpus):
        is_whole = share.quota == int(share.quota) or share.quota < 1
        part = "" if is_whole else "; whole ones are better: threads wait for the one that is stopped"
        yield Finding(
            Level.NOTE,
            f"the cgroup may use {count(share.quota, 'CPU')} of the {len(share.cpus)} that are seen{part}",
            "more threads than that would wait for each other; raise the quota (CPUQuota=, --cpus) if you can",
        )
    if share.quota is not None and share.quota < 1:
        yield Finding(
            Level.WARNING,
            f"a quota of {share.quota:.2g} CPUs stops even one thread, at every step",
            "give it at least one CPU",
        )
    if machine.throttled > _THROTTLED:
        yield Finding(
            Level.WARNING,
            f"the kernel stopped this cgroup in {percent(machine.throttled)} of its periods: it wants more time",
            "raise the quota, to whole CPUs if you can, and keep other processes out of this group",
        )
    if len(share.cpus) < machine.online:
        yield Finding(
            Level.NOTE, f"affinity allows {count(len(share.cpus), 'CPU')} of the machine's {machine.online}",
            "taskset, AllowedCPUs= or --cpuset-cpus decide this",
        )  # fmt: skip


def _company(machine: Machine) -> Iterator[Finding]:
    if machine.stolen > _STEAL:
        yield Finding(
            Level.WARNING,
            f"the hypervisor gave {percent(machine.stolen)} of this machine's CPU time to others (steal)",
            "for steady speed rent dedicated CPUs; engine.spin_count = 0 (the default) keeps the harm small",
        )
    waiting = machine.pressure.cpu
    if waiting is not None and waiting > _PRESSURE:
        yield Finding(
            Level.WARNING,
            f"processes here wait for a CPU {percent(waiting)} of the time: something else is busy right now",
            "end it, or give Reame CPUs of its own; look with `top`",
        )


def _memory(machine: Machine) -> Iterator[Finding]:
    ram = machine.ram
    if ram.limit is not None:
        yield Finding(Level.NOTE, f"the cgroup may hold {size(ram.limit)} of the machine's {size(ram.total)} of RAM")
    if ram.most and ram.swap_used > _SWAPPED * ram.most:
        yield Finding(
            Level.WARNING,
            f"{size(ram.swap_used)} are swapped out: tokens wait for the disk when weights are among them",
            "take a smaller model or end something; sysctl vm.swappiness=10, or model.mlock = true",
        )
    if ram.most and not ram.swap_total and ram.most < _LITTLE_RAM:
        yield Finding(
            Level.NOTE, "there is little RAM and no swap: a moment of need ends a process",
            "add 2 GB of swap and set vm.swappiness=10",
        )  # fmt: skip
    nodes = machine.share.numa_nodes
    if nodes > 1:
        yield Finding(
            Level.WARNING,
            f"this process's CPUs lie on {nodes} NUMA nodes: threads that read the other node's RAM are slow",
            "bind it to one (numactl --cpunodebind=0 --membind=0, or NUMAPolicy= and AllowedCPUs= in the unit)",
        )


def _storage(machine: Machine) -> Iterator[Finding]:
    disk = machine.disk
    if disk is None:
        return
    if disk.read_only:
        yield Finding(
            Level.WARNING, f"{disk.mount} is read-only: nothing is remembered beyond a restart",
            "set REAME_CACHE or memory.path to a directory that can be written",
        )  # fmt: skip
    elif disk.free < _LITTLE_DISK:
        yield Finding(
            Level.WARNING, f"only {size(disk.free)} are free on {disk.mount}, where the memory on disk is",
            "make room, or set memory.path to another disk",
        )  # fmt: skip
    if disk.kind in ("network", "hard disk"):
        yield Finding(
            Level.NOTE, f"the memory on disk is on a {disk.kind}{' file system' if disk.kind == 'network' else ''}",
            "memory.path on a local SSD makes it faster",
        )  # fmt: skip


def _cloud(machine: Machine) -> Iterator[Finding]:
    if machine.place.is_oracle_a1:
        yield Finding(
            Level.NOTE,
            "an Oracle A1: Neoverse-N1 has dot products and no int8 matrix instructions, so that repacked Q4_0 weights "
            "are its fastest",
            "choose a Q4_0 model of the catalogue; Oracle takes back always-free machines that idle for seven days",
        )
