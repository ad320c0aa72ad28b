"""Machines as their kernels show them: trees of /proc, /sys and cgroups in the documented formats, built by code.

Shortened to what is read, with the numbers of real ones of their kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

V2_MOUNT = "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
ROOT_MOUNT = "29 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"
UNLIMITED = str(9223372036854771712)
"""How v1 writes "no limit"."""

X86 = "fpu sse sse2 ht pni ssse3 fma sse4_1 sse4_2 movbe popcnt avx f16c abm bmi1 avx2 bmi2"
NEOVERSE_N1 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp"


def plant(root: Path, files: Mapping[str, str]) -> Path:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def basis(*, cpus: int, ram_gb: float, free_gb: float, swap_gb: float = 0, steal: int = 0) -> dict[str, str]:
    """What every Linux has. `steal`: per cent of the CPU time since the start."""
    line = f"{2000 * cpus} 0 {500 * cpus} {(7500 - 100 * steal) * cpus} 0 0 0 {100 * steal * cpus} 0 0"
    memory = {"MemTotal": ram_gb, "MemAvailable": free_gb, "SwapTotal": swap_gb, "SwapFree": swap_gb}
    return {
        "proc/self/status": f"Name:\tpython3\nCpus_allowed_list:\t0-{cpus - 1}\n",
        "proc/self/cgroup": "0::/user.slice/user-1000.slice/session-3.scope\n",
        "proc/self/mountinfo": V2_MOUNT + ROOT_MOUNT,
        "proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max locked memory         8388608              8388608              bytes     \n",
        "proc/meminfo": "".join(f"{key}:{int(gb * 1e9) >> 10:>15} kB\n" for key, gb in memory.items()),
        "proc/stat": f"cpu  {line}\n" + "".join(f"cpu{cpu} {line}\n" for cpu in range(cpus)) + "intr 1\n",
        "proc/pressure/cpu": "some avg10=0.15 avg60=0.20 avg300=0.11 total=1\nfull avg10=0.00 avg60=0.00 total=0\n",
        "proc/sys/vm/swappiness": "60\n",
        "sys/devices/system/cpu/online": f"0-{cpus - 1}\n",
        "sys/devices/system/node/online": "0\n",
        "sys/devices/system/node/node0/cpulist": f"0-{cpus - 1}\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/dev/block/8:1/../queue/rotational": "0\n",
        "sys/dev/block/8:1/uevent": "MAJOR=8\nMINOR=1\nDEVNAME=sda1\n",
    }


def topology(siblings: Mapping[int, str]) -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list": f"{group}\n" for cpu, group in siblings.items()}


def x86(cpus: int, name: str, flags: str = X86) -> str:
    lines = f"vendor_id\t: GenuineIntel\nmodel name\t: {name}\nflags\t\t: {flags}\n\n"
    return "".join(f"processor\t: {cpu}\n{lines}" for cpu in range(cpus))


def arm(cpus: int, part: str, features: str) -> str:
    lines = f"BogoMIPS\t: 50.00\nFeatures\t: {features}\nCPU implementer\t: 0x41\nCPU part\t: {part}\n\n"
    return "".join(f"processor\t: {cpu}\n{lines}" for cpu in range(cpus))


def oracle_a1(root: Path) -> Path:
    """The always-free ARM machine: 4 cores, 24 GB, the daemon in a unit without limits."""
    return plant(
        root,
        {
            **basis(cpus=4, ram_gb=25.1, free_gb=23.2),
            **topology({cpu: str(cpu) for cpu in range(4)}),
            "proc/cpuinfo": arm(4, "0xd0c", NEOVERSE_N1),
            "proc/self/cgroup": "0::/system.slice/reame.service\n",
            "sys/fs/cgroup/system.slice/reame.service/cpu.max": "max 100000\n",
            "sys/fs/cgroup/system.slice/reame.service/memory.max": "max\n",
            "sys/class/dmi/id/sys_vendor": "QEMU\n",
            "sys/class/dmi/id/product_name": "KVM Virtual Machine\n",
            "sys/class/dmi/id/chassis_asset_tag": "OracleCloud.com\n",
        },
    )


def vps_with_quota(root: Path) -> Path:
    """4 vCPUs seen, 2 CPUs allowed by a parent slice, 3 GB of memory, a greedy neighbour."""
    group = "sys/fs/cgroup/system.slice"
    return plant(
        root,
        {
            **basis(cpus=4, ram_gb=8.2, free_gb=6.9, steal=12),
            "proc/cpuinfo": x86(4, "AMD EPYC 7002", f"{X86} hypervisor"),
            "proc/self/cgroup": "0::/system.slice/reame.service\n",
            f"{group}/reame.service/cpu.max": "max 100000\n",
            f"{group}/cpu.max": "200000 100000\n",
            f"{group}/reame.service/cpu.stat": "usage_usec 1\nnr_periods 1000\nnr_throttled 420\nthrottled_usec 9\n",
            f"{group}/reame.service/memory.max": "3000000000\n",
            f"{group}/reame.service/memory.current": "900000000\n",
            f"{group}/reame.service/memory.stat": "anon 100000000\ninactive_file 500000000\nactive_file 200000000\n",
            "sys/class/dmi/id/sys_vendor": "Hetzner\n",
            "sys/class/dmi/id/product_name": "vServer\n",
        },
    )


def lxc(root: Path) -> Path:
    """A container with 5 of a host's 6 CPUs: lxcfs renumbers what is online, the folders below stay the host's."""
    lxcfs = "101 99 0:51 /proc/meminfo /proc/meminfo rw - fuse.lxcfs lxcfs rw\n"
    return plant(
        root,
        {
            **basis(cpus=6, ram_gb=4.3, free_gb=3.1, swap_gb=0.5),
            **topology({cpu: str(cpu) for cpu in range(6)}),
            "proc/cpuinfo": x86(5, "Intel(R) Xeon(R) E-2136 CPU @ 3.30GHz"),
            "proc/self/status": "Cpus_allowed_list:\t0,2-5\n",
            "proc/self/mountinfo": V2_MOUNT + ROOT_MOUNT + lxcfs,
            "sys/devices/system/cpu/online": "0-4\n",
            "run/systemd/container": "lxc\n",
        },
    )


def smt_desktop(root: Path) -> Path:
    """8 cores, 16 hardware threads, plenty of RAM, a hard disk."""
    return plant(
        root,
        {
            **basis(cpus=16, ram_gb=33.5, free_gb=28, swap_gb=2),
            **topology({cpu: f"{cpu % 8},{cpu % 8 + 8}" for cpu in range(16)}),
            "proc/cpuinfo": x86(16, "AMD Ryzen 7 5800X 8-Core Processor"),
            "sys/dev/block/8:1/../queue/rotational": "1\n",
            "sys/class/dmi/id/sys_vendor": "ASUS\n",
        },
    )


def hybrid_laptop(root: Path) -> Path:
    """2 performance cores with SMT, 8 efficient ones; the power-saving desktop has swapped."""
    cores = {0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", **{cpu: str(cpu) for cpu in range(4, 12)}}
    memory = "MemTotal: 7812500 kB\nMemAvailable: 2148437 kB\nSwapTotal: 8000000 kB\nSwapFree: 5000000 kB\n"
    return plant(
        root,
        {
            **basis(cpus=12, ram_gb=8, free_gb=2.2),
            **topology(cores),
            "proc/cpuinfo": x86(12, "12th Gen Intel(R) Core(TM) i5-1235U"),
            "proc/meminfo": memory,
            "sys/devices/cpu_core/cpus": "0-3\n",
            "sys/devices/cpu_atom/cpus": "4-11\n",
        },
    )


def v1_nested(root: Path) -> Path:
    """An old kernel: the limits stand on parents, 1.5 CPUs on one and 2 GB on another."""
    mounts = "".join(
        f"{40 + i} 31 0:{30 + i} / /sys/fs/cgroup/{name} rw - cgroup cgroup rw,{name}\n"
        for i, name in enumerate(("cpu,cpuacct", "memory", "cpuset"))
    )
    files = {
        **basis(cpus=8, ram_gb=16.7, free_gb=12),
        "proc/cpuinfo": x86(8, "Intel(R) Xeon(R) CPU E5-2620 v3 @ 2.40GHz"),
        "proc/self/cgroup": "5:cpuset:/\n4:cpu,cpuacct:/box/pod/job\n3:memory:/box/pod/job\n1:name=systemd:/\n",
        "proc/self/mountinfo": mounts + ROOT_MOUNT,
        "sys/devices/system/node/online": "0-1\n",
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node1/cpulist": "4-7\n",
    }
    limits = {"box/pod/job": (-1, UNLIMITED), "box/pod": (150_000, "4000000000"), "box": (-1, "2000000000")}
    for folder, (quota, limit) in limits.items():
        cpu, memory = f"sys/fs/cgroup/cpu,cpuacct/{folder}", f"sys/fs/cgroup/memory/{folder}"
        files |= {f"{cpu}/cpu.cfs_quota_us": f"{quota}\n", f"{cpu}/cpu.cfs_period_us": "100000\n"}
        files |= {f"{memory}/memory.limit_in_bytes": f"{limit}\n", f"{memory}/memory.usage_in_bytes": "800000000\n"}
        files[f"{memory}/memory.stat"] = (
            "inactive_file 1\nactive_file 2\ntotal_inactive_file 200000000\ntotal_active_file 100000000\n"
        )
    return plant(root, files)


MACHINES: Mapping[str, Callable[[Path], Path]] = {
    machine.__name__: machine for machine in (oracle_a1, vps_with_quota, lxc, smt_desktop, hybrid_laptop, v1_nested)
}
