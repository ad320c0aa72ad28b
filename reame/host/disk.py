"""The disk below a directory: what kind it is, and how much of it is free."""

from __future__ import annotations

import os
import re
from pathlib import Path

from attrs import frozen

from reame.host.reading import ROOT, read

_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "fuse.sshfs", "9p", "virtiofs"}
_IN_RAM = {"tmpfs", "ramfs"}


@frozen(kw_only=True)
class Disk:
    """`kind`: ssd, hard disk, virtual, network, RAM, or empty when not known. Bytes; `free`
    for an unprivileged writer.
    """

    mount: str
    filesystem: str
    kind: str
    total: int
    free: int
    read_only: bool


def disk(directory: Path, root: Path = ROOT) -> Disk | None:
    """Of `directory`, or of its nearest parent that exists. None when that cannot be told."""
    there = directory.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        size = os.statvfs(there)
        place = there.resolve()
    except OSError:
        return None
    mount, filesystem, device, options = _mount_of(place, root)
    return Disk(
        mount=mount,
        filesystem=filesystem,
        kind=_kind(root, filesystem, device),
        total=size.f_blocks * size.f_frsize,
        free=size.f_bavail * size.f_frsize,
        read_only="ro" in options.split(","),
    )


def _mount_of(place: Path, root: Path) -> tuple[str, str, str, str]:
    """(mount point, type, major:minor, options) of the last mount that covers `place`; empty when none is listed."""
    best = ("", "", "", "")
    for line in read(root, "proc/self/mountinfo").splitlines():
        mount, _, source = line.partition(" - ")
        fields = mount.split()
        if len(fields) < 6 or not source:
            continue
        point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if place.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, source.split()[0], fields[2], fields[5])
    return best


def _kind(root: Path, filesystem: str, device: str) -> str:
    if filesystem in _NETWORK:
        return "network"
    if filesystem in _IN_RAM:
        return "RAM"
    folder = Path("sys/dev/block") / device
    if re.search(r"^DEVNAME=x?vd[a-z]", read(root, str(folder / "uevent")), re.MULTILINE):
        return "virtual"  # calls itself rotational, whatever the host has
    for queue in ("queue", "../queue"):  # of the disk itself, or of the disk that the partition is on
        rotational = read(root, str(folder / queue / "rotational"))
        if device and rotational:
            return "hard disk" if rotational == "1" else "ssd"
    return ""
