"""How much CPU is ours, read from trees as captured on other machines."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from reame.host.cpu import Threads, cpu_share, default_threads, online_cpus

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

V2_MOUNT = "24 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
V1_MOUNTS = (
    "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n"
    "34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset\n"
)


def tree(root: Path, files: Mapping[str, str], *, allowed: str = "0-7", online: str = "0-7") -> Path:
    basis = {
        "proc/self/status": f"Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t{allowed}\n",
        "sys/devices/system/cpu/online": f"{online}\n",
    }
    for path, text in {**basis, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def siblings(pairs: Mapping[int, str], name: str = "thread_siblings_list") -> dict[str, str]:
    return {f"sys/devices/system/cpu/cpu{cpu}/topology/{name}": f"{group}\n" for cpu, group in pairs.items()}


DESKTOP = siblings({cpu: f"{cpu % 4},{cpu % 4 + 4}" for cpu in range(8)})
"""4 cores, 8 hardware threads, numbered as Intel does."""


def test_a_desktop_with_smt_gets_its_physical_cores(tmp_path: Path) -> None:
    share = cpu_share(tree(tmp_path, DESKTOP))
    assert (share.usable, share.cores, share.quota, share.fast_cores) == (8.0, 4, None, None)
    assert default_threads(share) == Threads(4, "4 threads: 8 hardware threads are 4 physical cores")


def test_newer_kernels_name_the_list_of_siblings_otherwise(tmp_path: Path) -> None:
    share = cpu_share(tree(tmp_path, siblings({cpu: f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" for cpu in range(8)})))
    assert share.cores == 4


def test_affinity_counts_only_the_cores_it_touches(tmp_path: Path) -> None:
    share = cpu_share(tree(tmp_path, DESKTOP, allowed="0,4-5"))
    assert (share.usable, share.cores) == (3.0, 2)
    assert default_threads(share).value == 2


def test_systemd_quota_200_percent_on_v2(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            **DESKTOP,
            "proc/self/cgroup": "0::/system.slice/reame.service\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/system.slice/reame.service/cpu.max": "200000 100000\n",
            "sys/fs/cgroup/system.slice/cpu.max": "max 100000\n",
        },
    )
    assert cpu_share(root).usable == 2.0
    assert default_threads(cpu_share(root)) == Threads(2, "2 threads: the cgroup quota is 2 CPUs")


@pytest.mark.parametrize(
    ("limit", "usable", "decode", "prefill"),
    [
        ("20000 100000", 0.2, 1, 1),
        ("110000 100000", 1.1, 1, 1),
        ("125000 100000", 1.25, 1, 2),
        ("150000 100000", 1.5, 2, 2),
        ("220000 100000", 2.2, 2, 2),
        ("225000 100000", 2.25, 2, 3),
        ("350000 100000", 3.5, 3, 4),
        ("650000 100000", 6.5, 4, 4),
    ],
)
def test_a_part_of_a_cpu_is_a_thread_where_it_is_worth_the_stops(
    tmp_path: Path, limit: str, usable: float, decode: int, prefill: int
) -> None:
    root = tree(
        tmp_path,
        {
            **DESKTOP,
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": V2_MOUNT,
            "sys/fs/cgroup/cpu.max": limit,
        },
    )
    assert cpu_share(root).usable == usable
    found = default_threads(cpu_share(root))
    assert (found.value, found.prefill) == (decode, prefill)


def test_a_parent_s_tighter_quota_on_v1_counts(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:cpuset:/\n3:cpu,cpuacct:/machine/pod7/box\n0::/\n",
        "proc/self/mountinfo": V1_MOUNTS,
    }
    for folder, quota in (("machine/pod7/box", -1), ("machine/pod7", 300000), ("machine", 500000), ("", -1)):
        files[f"sys/fs/cgroup/cpu,cpuacct/{folder}/cpu.cfs_quota_us"] = f"{quota}\n"
        files[f"sys/fs/cgroup/cpu,cpuacct/{folder}/cpu.cfs_period_us"] = "100000\n"
    root = tree(tmp_path, files)
    assert cpu_share(root).usable == 3.0
    assert default_threads(cpu_share(root)).value == 3


def test_docker_on_v1_mounts_its_own_cgroup_as_the_top(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu:/docker/f00d/job\n",
            "proc/self/mountinfo": "33 31 0:30 /docker/f00d /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "250000",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
        },
    )
    assert cpu_share(root).usable == 2.5


def test_a_cgroup_outside_of_the_namespace_reads_what_is_mounted(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "proc/self/cgroup": "0::/../../user.slice\n",
            "proc/self/mountinfo": "24 1 0:22 /../.. /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
            "sys/fs/cgroup/cpu.max": "100000 50000\n",
        },
    )
    assert cpu_share(root).usable == 2.0


def test_lxc_shows_the_host_s_topology_but_allows_five_of_six(tmp_path: Path) -> None:
    """lxcfs renumbers `online`; the folders below it stay the host's."""
    root = tree(tmp_path, siblings({cpu: str(cpu) for cpu in range(6)}), allowed="0,2-5", online="0-4")
    share = cpu_share(root)
    assert share.cpus == (0, 2, 3, 4, 5)
    assert default_threads(share).value == 5


def test_lxc_with_a_smaller_count_of_online_cpus(tmp_path: Path) -> None:
    assert cpu_share(tree(tmp_path, {}, online="0-1")).usable == 2.0


def test_offline_cpus_are_not_ours(tmp_path: Path) -> None:
    root = tree(tmp_path, {"sys/devices/system/cpu/cpu3/online": "0\n"}, allowed="0-3", online="0-2,4-7")
    assert cpu_share(root).cpus == (0, 1, 2)


def test_a_vm_without_smt_uses_all_it_has(tmp_path: Path) -> None:
    share = cpu_share(tree(tmp_path, siblings({0: "0", 1: "1"}), allowed="0-1", online="0-1"))
    assert default_threads(share) == Threads(2, "2 threads: this process may use 2 CPUs, no SMT seen")


def test_without_sysfs_topology_cpuinfo_tells_the_cores(tmp_path: Path) -> None:
    blocks = [
        f"processor\t: {cpu}\nphysical id\t: {cpu // 4}\nsiblings\t: 4\ncore id\t\t: {cpu % 2}" for cpu in range(8)
    ]
    assert cpu_share(tree(tmp_path, {"proc/cpuinfo": "\n\n".join(blocks) + "\n\n"})).cores == 4


def test_a_hybrid_cpu_of_intel_gets_its_performance_cores(tmp_path: Path) -> None:
    """2 performance cores with SMT (0-3), 4 efficient ones."""
    topology = siblings({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3", 4: "4", 5: "5", 6: "6", 7: "7"}, "core_cpus_list")
    files = {**topology, "sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n"}
    share = cpu_share(tree(tmp_path, files))
    assert (share.cores, share.fast_cores) == (6, 2)
    assert default_threads(share) == Threads(2, "2 threads: a hybrid CPU with 2 performance cores")
    only_small = cpu_share(tree(tmp_path, files, allowed="4-6"))
    assert default_threads(only_small).value == 3


def test_big_and_little_of_arm_by_capacity(tmp_path: Path) -> None:
    capacity = dict(enumerate([446] * 4 + [871] * 3 + [1024]))
    files = {f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": f"{c}\n" for cpu, c in capacity.items()}
    assert default_threads(cpu_share(tree(tmp_path, files))).value == 4


def test_cores_that_are_all_alike_are_no_hybrid(tmp_path: Path) -> None:
    files = {f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity": "1024\n" for cpu in range(8)}
    assert cpu_share(tree(tmp_path, files)).fast_cores is None


def test_nothing_readable_is_one_thread(tmp_path: Path) -> None:
    assert default_threads(cpu_share(tmp_path)) == Threads(1, "1 thread: this process may use 1 CPU, no SMT seen")
    assert online_cpus(tmp_path) == 1


def test_this_machine() -> None:
    share = cpu_share()
    assert set(share.cpus) == os.sched_getaffinity(0)
    assert 1 <= default_threads(share).value <= len(share.cpus)
