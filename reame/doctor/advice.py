"""The forms of advice: what is so, what is wrong and its remedy, and which setting follows."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from reame.doctor.results import Measured
    from reame.host.probe import Machine


class Level(StrEnum):
    """`FAULT`: it cannot work so. `WARNING`: it works badly, or will. `NOTE`: worth knowing. `GOOD`: was checked."""

    FAULT = "fault"
    WARNING = "warning"
    NOTE = "note"
    GOOD = "good"


@frozen
class Finding:
    """One sentence about this machine and, where there is one, what to do."""

    level: Level
    what: str
    remedy: str = ""


@frozen(kw_only=True)
class Own:
    """What Reame itself has of the machine. `serves`: a daemon runs, and holds its memory. `disk_bytes`: what is
    remembered there."""

    serves: bool = False
    disk_bytes: int = 0


@frozen
class Setting:
    """A key of the configuration, the value that is right here, and why. `is_measured` False: worked out."""

    key: str
    value: int | str | bool
    why: str
    is_measured: bool = False


@frozen(kw_only=True)
class Fact:
    """A number that the machine can do, in words. `is_estimate`: it was not measured as such."""

    name: str
    text: str
    is_estimate: bool = False


@frozen(kw_only=True)
class Fit:
    """A model of the catalogue here. Tokens a second for one user, a range since it is an estimate; None: unknown."""

    name: str
    ram: int
    fits: bool
    least: float | None
    most: float | None
    advice: str


@frozen(kw_only=True)
class Report:
    """All that the doctor says."""

    machine: Machine
    measured: Measured | None
    facts: tuple[Fact, ...]
    findings: tuple[Finding, ...]
    settings: tuple[Setting, ...]
    fits: tuple[Fit, ...]

    @property
    def has_fault(self) -> bool:
        return any(finding.level == Level.FAULT for finding in self.findings)
