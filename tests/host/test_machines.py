"""Whole machines, as captured: what is ours, and what a person must know of each."""

from __future__ import annotations

from pathlib import Path

import pytest
from machines import MACHINES, hybrid_laptop, lxc, oracle_a1, plant, smt_desktop, v1_nested, vps_with_quota

from reame.host.contention import Watch, cpu_times, pressure
from reame.host.cpu import cpu_share
from reame.host.disk import disk
from reame.host.features import llama_library
from reame.host.probe import Machine, probe
from reame.host.ram import ram
from reame.host.thread_room import thread_room


def seen(machine: object, root: Path) -> Machine:
    return probe(machine(root), cache=root)  # type: ignore[operator]


def test_oracle_s_free_arm_machine(tmp_path: Path) -> None:
    found = seen(oracle_a1, tmp_path)
    assert found.place.is_oracle_a1
    assert (found.place.cpu, found.place.machine, found.place.cloud) == ("Neoverse-N1", "aarch64", "Oracle Cloud")
    assert (found.threads.value, found.share.quota, found.ram.limit) == (4, None, None)
    assert {"asimddp", "asimdhp"} <= found.features
    assert "i8mm" not in found.features


def test_a_vps_whose_slice_has_two_of_four_cpus(tmp_path: Path) -> None:
    found = seen(vps_with_quota, tmp_path)
    assert (found.online, found.share.quota, found.threads.value) == (4, 2.0, 2)
    assert found.stolen == pytest.approx(0.12)
    assert found.throttled == pytest.approx(0.42)
    assert found.ram.limit == 3_000_000_000
    assert found.ram.available == 3_000_000_000 - (900_000_000 - 700_000_000), "page cache can be had back"
    assert (found.place.cloud, found.place.hypervisor) == ("Hetzner Cloud", "a hypervisor")


def test_lxc_with_five_of_six(tmp_path: Path) -> None:
    found = seen(lxc, tmp_path)
    assert (found.place.container, found.online, found.share.cpus) == ("lxc", 5, (0, 2, 3, 4, 5))
    assert found.threads.value == 5


def test_a_desktop_gets_its_physical_cores(tmp_path: Path) -> None:
    found = seen(smt_desktop, tmp_path)
    assert (found.online, found.share.cores, found.threads.value) == (16, 8, 8)
    assert (found.place.hypervisor, found.place.cloud, found.place.container) == ("", "", "")


def test_a_hybrid_laptop_that_swaps(tmp_path: Path) -> None:
    found = seen(hybrid_laptop, tmp_path)
    assert (found.share.cores, found.share.fast_cores, found.threads.value) == (10, 2, 2)
    assert found.ram.swap_used == 3_000_000 << 10
    assert found.ram.swappiness == 60


def test_old_cgroups_with_limits_on_parents(tmp_path: Path) -> None:
    found = seen(v1_nested, tmp_path)
    assert (found.share.quota, found.threads.value) == (1.5, 2)
    assert found.ram.limit == 2_000_000_000
    assert found.ram.available == 2_000_000_000 - (800_000_000 - 300_000_000)
    assert found.share.numa_nodes == 2


def test_a_machine_of_two_nodes_of_which_one_is_ours(tmp_path: Path) -> None:
    root = v1_nested(tmp_path)
    plant(root, {"proc/self/status": "Cpus_allowed_list:\t4-6\n"})
    assert probe(root).share.numa_nodes == 1


@pytest.mark.parametrize("name", MACHINES)
def test_any_file_may_be_missing(tmp_path: Path, name: str) -> None:
    """One after the other is taken away: what is left is still a machine with a thread."""
    root = MACHINES[name](tmp_path)
    for file in sorted(path for path in root.rglob("*") if path.is_file()):
        text = file.read_text()
        for damage in (None, "", "\0nonsense -1 max\n"):
            file.unlink() if damage is None else file.write_text(damage)
            found = probe(root, cache=root)
            assert found.threads.value >= 1
            assert found.ram.available >= 0
        file.write_text(text)


def test_this_machine() -> None:
    found = probe(cache=Path.home(), library=llama_library())
    assert found.missing == ()
    assert found.compiled <= found.features, "the library was built here"
    assert 0 < found.ram.available <= found.ram.total
    assert found.times.total > 0
    assert 0 <= found.stolen < 1
    assert found.disk is not None
    assert 0 < found.disk.free <= found.disk.total


def test_the_disk_is_the_innermost_mount_s(tmp_path: Path) -> None:
    mounts = (
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:50 / {tmp_path.parent} rw - tmpfs tmpfs rw\n"
        f"3 2 254:0 / {tmp_path}/with\\040space ro - ext4 /dev/vdb rw\n"
    )
    root = plant(
        tmp_path / "root",
        {
            "proc/self/mountinfo": mounts,
            "sys/dev/block/8:1/queue/rotational": "1\n",
            "sys/dev/block/254:0/uevent": "DEVNAME=vdb\n",
            "sys/dev/block/254:0/queue/rotational": "1\n",
        },
    )
    inside = tmp_path / "with space"
    inside.mkdir()
    found = [disk(folder, root) for folder in (Path("/"), tmp_path, inside)]
    assert [it and (it.kind, it.read_only) for it in found] == [("hard disk", False), ("RAM", False), ("virtual", True)]
    assert disk(inside / "not" / "yet", root) == disk(inside, root)


def test_times_are_those_of_the_cpus_asked_for(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/stat": "cpu  4 0 0 8 0 0 0 4 9 9\ncpu0 4 0 0 4 0 0 0 0 9 9\ncpu1 0 0 0 4 0 0 0 4 9 9\n"})
    everything = cpu_times(tmp_path)
    assert (everything.total, everything.busy, everything.stolen) == (16, 4, 4), "guest time is user time already"
    assert cpu_times(tmp_path, cpus=(1,)).stolen == 4
    assert cpu_times(tmp_path, cpus=(0,)).busy == 4


def test_cpus_that_lxcfs_numbers_anew_are_all_that_it_shows(tmp_path: Path) -> None:
    plant(tmp_path, {"proc/stat": "cpu  4 0 0 8 0 0 0 4 0 0\ncpu0 4 0 0 4 0 0 0 0 0 0\ncpu1 0 0 0 4 0 0 0 4 0 0\n"})
    for cpus in ((5, 9), (1, 3)):
        assert cpu_times(tmp_path, cpus=cpus) == cpu_times(tmp_path)
    for cpus in ((5,), (1, 5, 9)):
        assert cpu_times(tmp_path, cpus=cpus).total == 0, "not known which"


def test_pressure_that_the_kernel_does_not_measure_is_not_known(tmp_path: Path) -> None:
    assert pressure(tmp_path).cpu is None
    plant(tmp_path, {"proc/pressure/cpu": "some avg10=12.50 avg60=1.00 avg300=0.00 total=1\n"})
    assert pressure(tmp_path).cpu == 0.125


def test_a_watch_does_not_count_its_own_work() -> None:
    watch = Watch(cpu_share())
    sum(range(3_000_000))
    found = watch.look()
    assert 0 <= found.others <= len(cpu_share().cpus)
    assert 0 <= found.stolen <= 1


@pytest.mark.parametrize(
    ("limits", "swap"),
    [
        ({}, (2_000, 500, 1_500)),
        ({"swap.max": "max", "swap.current": "9"}, (2_000, 500, 1_500)),
        ({"swap.max": "0", "swap.current": "0"}, (0, 0, 0)),  # docker run -m 2g --memory-swap 2g
        ({"swap.max": "1000", "swap.current": "100"}, (1_000, 100, 900)),
        ({"swap.max": "9000", "swap.current": "100"}, (2_000, 100, 1_500)),  # the machine has no more
    ],
)
def test_swap_is_what_the_cgroup_lets_be_swapped(
    tmp_path: Path, limits: dict[str, str], swap: tuple[int, int, int]
) -> None:
    root = oracle_a1(tmp_path)
    info = "MemTotal: 8000 kB\nMemAvailable: 4000 kB\nSwapTotal: 2000 kB\nSwapFree: 1500 kB\n"
    service = "sys/fs/cgroup/system.slice/reame.service"
    in_bytes = {name: str(int(text) << 10) if text.isdigit() else text for name, text in limits.items()}
    plant(root, {"proc/meminfo": info, **{f"{service}/memory.{name}": text for name, text in in_bytes.items()}})
    found = ram(root)
    assert (found.swap_total >> 10, found.swap_used >> 10, found.swap_free >> 10) == swap


def test_a_memory_limit_above_the_machine_is_none(tmp_path: Path) -> None:
    root = oracle_a1(tmp_path)
    plant(root, {"sys/fs/cgroup/memory.max": "90000000000\n"})
    assert ram(root).limit is None
    plant(root, {"sys/fs/cgroup/system.slice/memory.high": "1000000000\n"})
    assert ram(root).limit == 1_000_000_000


def test_the_tightest_memory_limit_is_not_always_the_one_with_the_least_room(tmp_path: Path) -> None:
    root, top = oracle_a1(tmp_path), "sys/fs/cgroup/system.slice"
    limits = {f"{top}/reame.service": (2_000_000_000, 500_000_000), top: (8_000_000_000, 7_900_000_000)}
    for folder, (limit, used) in limits.items():
        plant(root, {f"{folder}/memory.max": f"{limit}\n", f"{folder}/memory.current": f"{used}\n"})
    found = ram(root)
    assert (found.limit, found.available) == (2_000_000_000, 100_000_000)
    assert found.most == 2_000_000_000


@pytest.mark.parametrize(
    ("own", "parent", "limit", "tasks", "room"),
    [
        ("max 40", "max 90", "unlimited", 500, None),
        ("100 40", "max 90", "unlimited", 500, 60),
        ("100 40", "120 90", "15000", 500, 30),
        ("max 40", "max 90", "600", 500, 100),
        ("max 40", "max 90", "200", 500, 0),
    ],
)
def test_threads_may_be_limited_by_any_group_and_for_the_user(
    tmp_path: Path, own: str, parent: str, limit: str, tasks: int, room: int | None
) -> None:
    root, top = oracle_a1(tmp_path), "sys/fs/cgroup/system.slice"
    for folder, group in {f"{top}/reame.service": own, top: parent}.items():
        most, _, current = group.partition(" ")
        plant(root, {f"{folder}/pids.max": f"{most}\n", f"{folder}/pids.current": f"{current}\n"})
    limits = f"Max processes             {limit:<20} {limit:<20} processes \n"
    plant(root, {"proc/self/limits": limits, "proc/loadavg": f"0.50 0.40 0.30 3/{tasks} 12345\n"})
    assert thread_room(root) == room


def test_threads_of_old_cgroups_have_a_hierarchy_of_their_own(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "8:pids:/box\n1:name=systemd:/\n",
        "proc/self/mountinfo": "41 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n",
        "sys/fs/cgroup/pids/box/pids.max": "64\n",
        "sys/fs/cgroup/pids/box/pids.current": "24\n",
    }
    assert thread_room(plant(tmp_path, files)) == 40
