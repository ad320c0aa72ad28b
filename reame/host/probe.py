"""This machine at a glance: all that can be read without computing anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

from reame.host.cgroup import throttled
from reame.host.contention import CpuTimes, Pressure, cpu_times, pressure
from reame.host.cpu import CpuShare, Threads, cpu_share, default_threads, online_cpus
from reame.host.disk import Disk, disk
from reame.host.features import cpu_features, missing_features
from reame.host.library import compiled_features
from reame.host.place import Place, place
from reame.host.ram import Ram, ram
from reame.host.reading import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@frozen(kw_only=True)
class Machine:
    """What the kernel says. `missing`: instruction sets that llama.cpp was compiled for and this CPU lacks."""

    place: Place
    online: int
    """Logical CPUs of the machine or container, ours or not."""
    share: CpuShare
    threads: Threads
    """The quick choice, without a measurement."""
    throttled: float
    """Share of the quota's periods in which the kernel stopped this group."""
    ram: Ram
    disk: Disk | None
    times: CpuTimes
    pressure: Pressure
    features: frozenset[str]
    compiled: frozenset[str]
    missing: tuple[str, ...]

    @property
    def stolen(self) -> float:
        """Share of all CPU time that the hypervisor gave to others since this machine started."""
        return self.times.stolen / max(1, self.times.total)


def probe(root: Path = ROOT, *, cache: Path | None = None, library: Path | None = None) -> Machine:
    """`cache`: the directory whose disk is meant; `library`: the libggml-cpu whose compiled features count."""
    share = cpu_share(root)
    compiled = compiled_features(library) if library else frozenset()
    features = cpu_features(root)
    return Machine(
        place=place(root),
        online=online_cpus(root),
        share=share,
        threads=default_threads(share),
        throttled=throttled(root),
        ram=ram(root),
        disk=disk(cache, root) if cache else None,
        times=cpu_times(root),
        pressure=pressure(root),
        features=features,
        compiled=compiled,
        missing=missing_features(compiled, features),
    )
