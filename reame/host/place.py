"""Where this is: the CPU's name, a virtual machine, a container, a cloud."""

from __future__ import annotations

import platform
import re
from typing import TYPE_CHECKING

from attrs import frozen

from reame.host.reading import ROOT, read

if TYPE_CHECKING:
    from pathlib import Path

_ARM = {
    "0x41": {
        "0xd03": "Cortex-A53", "0xd05": "Cortex-A55", "0xd08": "Cortex-A72", "0xd0b": "Cortex-A76",
        "0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2",
    },
    "0xc0": {"0xac3": "Ampere-1", "0xac4": "Ampere-1a"},
    "0x61": {"0x022": "Apple M1", "0x023": "Apple M1", "0x032": "Apple M2", "0x033": "Apple M2"},
}  # fmt: skip
"""CPU implementer -> CPU part -> name: those that people rent or own."""

_CLOUDS = (
    ("oraclecloud", "Oracle Cloud"), ("amazon ec2", "Amazon EC2"), ("google compute engine", "Google Cloud"),
    ("hetzner", "Hetzner Cloud"), ("digitalocean", "DigitalOcean"), ("scaleway", "Scaleway"), ("vultr", "Vultr"),
    ("linode", "Linode"), ("ovh", "OVH"), ("alibaba", "Alibaba Cloud"), ("microsoft corporation virtual", "Azure"),
)  # fmt: skip
_HYPERVISORS = (
    ("kvm", "KVM"), ("qemu", "KVM"), ("vmware", "VMware"), ("virtualbox", "VirtualBox"), ("xen", "Xen"),
    ("microsoft corporation virtual", "Hyper-V"), ("amazon ec2", "KVM"), ("google compute engine", "KVM"),
)  # fmt: skip


@frozen(kw_only=True)
class Place:
    """All in words for people; empty: none, or not known."""

    cpu: str
    machine: str
    """The architecture: x86_64, aarch64."""
    hypervisor: str
    container: str
    cloud: str

    @property
    def is_oracle_a1(self) -> bool:
        """The always-free ARM shape of Oracle's cloud: Ampere Altra, which is Neoverse-N1."""
        return self.cloud == "Oracle Cloud" and "Neoverse-N1" in self.cpu


def place(root: Path = ROOT) -> Place:
    cpuinfo = read(root, "proc/cpuinfo")
    names = ("sys_vendor", "product_name", "chassis_vendor", "chassis_asset_tag", "board_vendor", "bios_vendor")
    dmi = " ".join(read(root, f"sys/class/dmi/id/{name}") for name in names).casefold()
    return Place(
        cpu=_cpu_name(cpuinfo),
        machine="aarch64" if "CPU implementer" in cpuinfo else "x86_64" if "vendor_id" in cpuinfo else _own(root),
        hypervisor=_first(_HYPERVISORS, dmi) or ("a hypervisor" if _is_guest(cpuinfo) else ""),
        container=_container(root),
        cloud=_first(_CLOUDS, dmi),
    )


def _own(root: Path) -> str:
    return platform.machine() if root == ROOT else ""


def _cpu_name(cpuinfo: str) -> str:
    if found := re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE):
        return " ".join(found[1].split())
    parts = re.findall(r"^CPU implementer\s*:\s*(\S+)$.*?^CPU part\s*:\s*(\S+)$", cpuinfo, re.MULTILINE | re.DOTALL)
    kinds = dict.fromkeys(_ARM.get(maker, {}).get(part, f"ARM {maker}/{part}") for maker, part in parts)
    return " + ".join(kinds)


def _is_guest(cpuinfo: str) -> bool:
    return bool(re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE))


def _first(names: tuple[tuple[str, str], ...], text: str) -> str:
    return next((name for mark, name in names if mark in text), "")


def _container(root: Path) -> str:
    """As systemd and the engines leave their marks."""
    if told := read(root, "run/systemd/container"):
        return told
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    mounts = read(root, "proc/self/mountinfo")
    return "lxc" if " - fuse.lxcfs " in mounts else ""
