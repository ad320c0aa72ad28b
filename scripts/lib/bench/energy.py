"""What the processor packages used, in joules, where the kernel tells (RAPL; on many machines to root only, in virtual
ones hardly ever)."""

from __future__ import annotations

from pathlib import Path

from attrs import frozen

POWERCAP = Path("/sys/class/powercap")


@frozen
class Energy:
    """A reading of every package's counter in microjoules, by zone; `joules()` is what was used since."""

    counters: dict[str, int]
    ranges: dict[str, int]
    root: Path

    @classmethod
    def now(cls, root: Path = POWERCAP) -> Energy | None:
        """None where no counter can be read. Only whole packages: their parts are in them already."""
        counters, ranges = {}, {}
        for zone in sorted(root.glob("*rapl:[0-9]*")):
            if zone.name.count(":") != 1 or "mmio" in zone.name:
                continue
            try:
                if not (zone / "name").read_text().startswith("package"):
                    continue
                counters[zone.name] = int((zone / "energy_uj").read_text())
                ranges[zone.name] = int((zone / "max_energy_range_uj").read_text())
            except (OSError, ValueError):
                continue
        return cls(counters, ranges, root) if counters else None

    def joules(self) -> float | None:
        """Since this reading; None when a counter has gone. Right for less than one turn of a counter (minutes to
        hours): it begins again at zero after `max_energy_range_uj`."""
        later = Energy.now(self.root)
        if later is None or later.counters.keys() != self.counters.keys():
            return None
        used = 0
        for zone, before in self.counters.items():
            after = later.counters[zone]
            used += after - before if after >= before else after + self.ranges[zone] - before
        return used / 1e6


def in_words(root: Path = POWERCAP) -> str:
    """For the facts of a benchmark."""
    return "RAPL" if Energy.now(root) else "not readable here (no RAPL counter)"
