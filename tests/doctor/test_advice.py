"""Each machine gets its own advice, and nothing that is not so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from machines import MACHINES, hybrid_laptop, lxc, oracle_a1, plant, smt_desktop, v1_nested, vps_with_quota
from samples import BUSY, SAMPLE, with_model

from reame.catalog import CATALOG
from reame.config_load import override, parse_config
from reame.doctor.advice import Level, Own, Report
from reame.doctor.advise import advise
from reame.doctor.results import Lossless, Spin, Variant
from reame.engine.footprint import Footprint
from reame.engine.llama import LlamaOptions
from reame.host.probe import probe

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reame.doctor.results import Measured

DEFAULTS = parse_config("")


def report(
    machine: Callable[[Path], Path], root: Path, measured: Measured | None = None, *, mapped: bool = True, **config: Any
) -> Report:
    """With the settings `config`. The samples were measured with the file mapped."""
    settings = override(DEFAULTS, {key.replace("__", "."): value for key, value in config.items()})
    options = LlamaOptions(
        threads=2, prefill_threads=2, extra_buffers=settings.engine.extra_buffers != "off", mmap=mapped
    )
    return advise(probe(machine(root), cache=root), measured, settings, options, catalogue=CATALOG)


def said(found: Report, *levels: Level) -> str:
    wanted = levels or tuple(Level)
    return "\n".join(f"{it.what} -> {it.remedy}" for it in found.findings if it.level in wanted)


def advised(found: Report) -> dict[str, object]:
    return {setting.key: setting.value for setting in found.settings}


def fact(found: Report, name: str) -> str:
    return next(fact.text for fact in found.facts if fact.name == name)


def test_oracle_a1_is_told_which_weights_are_fast_and_that_idling_ends_it(tmp_path: Path) -> None:
    found = report(oracle_a1, tmp_path)
    assert "Q4_0" in said(found)
    assert "idle for seven days" in said(found)
    assert not said(found, Level.FAULT, Level.WARNING)
    assert "4 threads" in fact(found, "threads")


def test_a_vps_is_told_about_quota_throttling_and_steal(tmp_path: Path) -> None:
    found = report(vps_with_quota, tmp_path)
    assert "2 CPUs of the 4" in said(found, Level.NOTE)
    warnings = said(found, Level.WARNING)
    assert "stopped this cgroup in 42%" in warnings
    assert "12% of this machine's CPU time" in warnings
    assert "3 GB of the machine's 8.2 GB" in said(found, Level.NOTE)
    assert not [fit.name for fit in found.fits if fit.fits and fit.ram > 3_000_000_000]


def test_lxc_has_nothing_to_complain_of(tmp_path: Path) -> None:
    found = report(lxc, tmp_path)
    assert not said(found, Level.FAULT, Level.WARNING)
    assert "lxc" in fact(found, "machine")
    assert fact(found, "CPUs").startswith("5")


def test_a_desktop_hears_of_its_hard_disk(tmp_path: Path) -> None:
    found = report(smt_desktop, tmp_path)
    assert "16 on 8 cores" in fact(found, "CPUs")
    assert "hard disk" in fact(found, "disk")
    assert "local SSD" in said(found, Level.NOTE)


def test_a_laptop_that_swaps_is_told_so(tmp_path: Path) -> None:
    found = report(hybrid_laptop, tmp_path)
    assert "3.07 GB are swapped out" in said(found, Level.WARNING)
    assert "2 of them fast" in fact(found, "CPUs")


def test_old_cgroups_half_a_cpu_and_nodes_are_named(tmp_path: Path) -> None:
    found = report(v1_nested, tmp_path)
    assert "1.5 CPUs of the 8 that are seen; whole ones are better" in said(found, Level.NOTE)
    assert "2 NUMA nodes" in said(found, Level.WARNING)
    assert "2 threads: the cgroup quota is 1.5 CPUs" in fact(found, "threads")


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("measured", [None, SAMPLE])
def test_what_is_advised_is_a_configuration(tmp_path: Path, name: str, measured: Measured | None) -> None:
    """Whatever the machine: the values are within their ranges, fit together, and leave nothing more to advise."""
    first = report(MACHINES[name], tmp_path, measured)
    again = report(MACHINES[name], tmp_path, measured, **{k.replace(".", "__"): v for k, v in advised(first).items()})
    assert advised(again) == {}


def test_a_cpu_without_what_the_build_needs_is_a_fault(tmp_path: Path) -> None:
    machine = evolve(probe(lxc(tmp_path)), missing=("avx512f",), features=frozenset({"sse4_2", "avx"}))
    found = advise(machine, None, DEFAULTS, LlamaOptions(), catalogue=CATALOG)
    assert found.has_fault
    assert "avx512f" in said(found, Level.FAULT)
    assert "./scripts/setup" in said(found, Level.FAULT)
    assert "no AVX2" in said(found, Level.WARNING)
    assert (found.settings, found.fits) == ((), ()), "nothing can be set or chosen before that is mended"


def test_what_the_daemon_will_hold_is_said_and_pages_that_were_copied_leave_room(tmp_path: Path) -> None:
    """A model of 1 GB, most of it repacked, on 3 GB: its copy needs the RAM, and the pages it was made from do not."""
    gigabyte = 10**9
    memory = Footprint(pages=gigabyte, idle=0, weights=8 * 10**8, cells=10**8, work=10**8)
    measured = with_model(size_bytes=gigabyte, file_bytes=gigabyte, anon_bytes=gigabyte, kv_bytes=28_000)
    cells = []
    for idle in (0, 8 * 10**8):
        machine = probe(vps_with_quota(tmp_path), cache=tmp_path)
        needs = evolve(memory, idle=idle)
        found = advise(machine, measured, DEFAULTS, LlamaOptions(mmap=True), catalogue=CATALOG, memory=needs)
        copied = "the daemon holds 1 GB, 800 MB of it repacked weights, and 1 GB of the model's file"
        assert fact(found, "memory").startswith(copied)
        value = advised(found).get("engine.cells", 2 * DEFAULTS.engine.context)
        assert isinstance(value, int)
        cells.append(value)
    assert cells[0] < cells[1]


def test_a_build_that_leaves_instructions_unused_is_named(tmp_path: Path) -> None:
    machine = evolve(probe(lxc(tmp_path)), compiled=frozenset({"avx"}))
    found = advise(machine, None, DEFAULTS, LlamaOptions(), catalogue=CATALOG)
    assert "built without avx2, which this CPU has" in said(found, Level.WARNING)


def test_measured_threads_are_advised_when_they_differ(tmp_path: Path) -> None:
    one_is_best = with_model(threads=1, prefill_threads=2)
    values = advised(report(vps_with_quota, tmp_path, one_is_best))
    assert (values["engine.threads"], values["engine.prefill_threads"]) == (1, 2)
    assert "engine.threads" not in advised(report(vps_with_quota, tmp_path, SAMPLE)), "the quick choice is right"
    too_many = advised(report(vps_with_quota, tmp_path, SAMPLE, engine__threads=4))
    assert too_many["engine.threads"] == 0


def test_in_bad_company_nothing_fine_is_concluded(tmp_path: Path) -> None:
    spins = {3000: Spin(alone=1, beside=9), 0: Spin(alone=1, beside=1)}
    measured = evolve(with_model(threads=1, spins=spins), contention=BUSY)
    found = report(vps_with_quota, tmp_path, measured)
    assert "other processes used 1.2 CPUs" in said(found, Level.WARNING)
    assert not {"engine.threads", "engine.spin_count", "engine.extra_buffers"} & advised(found).keys()
    assert not [fact for fact in found.facts if fact.name == "together"]
    assert "not judged" in fact(found, "drafts")
    assert advised(report(vps_with_quota, tmp_path, measured, engine__threads=4))["engine.threads"] == 0


def test_it_says_whether_drafts_pay(tmp_path: Path) -> None:
    assert fact(report(lxc, tmp_path, SAMPLE), "drafts") == "pay: 8 of them cost 1.7 steps, won back when 63% are right"
    dear = with_model(steps={1: 0.08, 2: 0.14, 4: 0.28, 8: 0.56, 16: 1.1})
    assert "pay for text that repeats itself only" in fact(report(lxc, tmp_path, dear), "drafts")
    hopeless = with_model(steps={rows: 0.08 * rows for rows in (1, 2, 4, 8, 16)})
    assert "do not pay here" in fact(report(lxc, tmp_path, hopeless), "drafts")


def test_spinning_is_judged_alone_and_beside(tmp_path: Path) -> None:
    fixed = advised(report(lxc, tmp_path, SAMPLE, engine__spin_count=3000))
    assert "engine.spin_count" not in fixed, "1000 is hardly better than 3000, and so is following the company"
    spins = {3000: Spin(alone=0.08, beside=0.4), 1000: Spin(alone=0.085, beside=0.15)}
    better = with_model(spins=spins)
    assert advised(report(lxc, tmp_path, better, engine__spin_count=3000))["engine.spin_count"] == 1000
    adaptive = with_model(spins=spins | {0: Spin(alone=0.075, beside=0.5)})
    assert advised(report(lxc, tmp_path, adaptive, engine__spin_count=3000))["engine.spin_count"] == 0
    assert "engine.spin_count" not in advised(report(lxc, tmp_path, better)), "it follows the company"


def test_repacked_weights_go_when_the_mix_is_faster_without(tmp_path: Path) -> None:
    base = Variant(decode=0.08, prefill=0.02, anon_bytes=1)
    measured = with_model(
        variants={"as it is": base, "repacked weights off": Variant(decode=0.09, prefill=0.01, anon_bytes=1)}
    )
    found = report(lxc, tmp_path, measured)
    assert advised(found)["engine.extra_buffers"] == "off", "4 x 20 + 80 ms against 4 x 10 + 90 ms"
    assert "prompts 2.00x" in said(found, Level.NOTE)


def test_cells_fit_into_what_is_left(tmp_path: Path) -> None:
    """3 GB limit: 85 % of it less 1.1 + 1 GB of weights and the buffers leaves room for some 29,000 cells of 10 kB."""
    values = advised(report(vps_with_quota, tmp_path, SAMPLE))
    assert 20_000 < values["engine.cells"] < 32_768  # type: ignore[operator]
    roomy = advised(report(smt_desktop, tmp_path, SAMPLE))
    assert roomy["engine.cells"] == 4 * 8192
    tight = advised(report(vps_with_quota, tmp_path, with_model(kv_bytes=80_000)))
    assert tight["engine.context"] == tight["engine.cells"] < 8192  # type: ignore[operator]
    copied = advised(report(vps_with_quota, tmp_path, with_model(file_bytes=0, kv_bytes=80_000), mapped=False))
    assert copied["engine.cells"] > tight["engine.cells"], "the weights are in RAM once"  # type: ignore[operator]


def test_what_reame_has_of_the_machine_is_not_missed(tmp_path: Path) -> None:
    machine = probe(vps_with_quota(tmp_path), cache=tmp_path)
    assert machine.disk is not None
    tight = evolve(machine, disk=evolve(machine.disk, free=4 << 30))
    ours = Own(serves=True, disk_bytes=20 << 30)
    options = LlamaOptions(mmap=True)
    measured = with_model(kv_bytes=80_000)
    alone, beside = (
        advise(tight, measured, DEFAULTS, options, catalogue=CATALOG, own=own) for own in (Own(), ours)
    )
    assert {"engine.cells", "memory.disk_mb"} <= set(advised(alone))
    assert not {"engine.cells", "engine.context", "memory.disk_mb"} & set(advised(beside))
    assert "a daemon of Reame runs here" in said(beside, Level.NOTE)


def test_a_second_copy_of_the_weights_is_named_where_ram_is_short(tmp_path: Path) -> None:
    assert "second copy" in said(report(vps_with_quota, tmp_path, SAMPLE), Level.WARNING)
    assert "second copy" not in said(report(smt_desktop, tmp_path, SAMPLE))


def test_mlock_beyond_the_limit_names_the_line_of_the_unit(tmp_path: Path) -> None:
    found = report(lxc, tmp_path, SAMPLE, model__mlock=True)
    assert "LimitMEMLOCK=infinity" in said(found, Level.WARNING)
    assert "LimitMEMLOCK" not in said(report(lxc, tmp_path, SAMPLE))


def test_weights_that_do_not_stay_in_ram_are_named(tmp_path: Path) -> None:
    assert "waited 120 times for the disk" in said(report(lxc, tmp_path, with_model(faults=120)), Level.WARNING)


def test_losslessness_is_said_either_way(tmp_path: Path) -> None:
    assert "to the last bit" in said(report(lxc, tmp_path, SAMPLE), Level.GOOD)
    moved = with_model(lossless=Lossless(warm=0.0, crowd=0.31, same_text=False))
    text = said(report(lxc, tmp_path, moved), Level.NOTE)
    assert "in a crowd (log-probabilities move by up to 0.31)" in text
    assert "engine.exact = true" in text


def test_what_crashed_is_a_fault(tmp_path: Path) -> None:
    found = report(lxc, tmp_path, evolve(SAMPLE, model=None, faults=("measuring the model died of SIGILL",)))
    assert found.has_fault
    assert "SIGILL" in said(found, Level.FAULT)


def test_a_full_disk_and_a_read_only_one(tmp_path: Path) -> None:
    machine = probe(lxc(tmp_path), cache=tmp_path)
    assert machine.disk is not None
    full = evolve(machine, disk=evolve(machine.disk, free=300_000_000))
    found = advise(full, None, DEFAULTS, LlamaOptions(), catalogue=CATALOG)
    assert "only 300 MB are free" in said(found, Level.WARNING)
    assert advised(found)["memory.disk_mb"] == 256
    locked = evolve(machine, disk=evolve(machine.disk, read_only=True))
    found = advise(locked, None, DEFAULTS, LlamaOptions(), catalogue=CATALOG)
    assert "is read-only" in said(found, Level.WARNING)
    assert not advised(found)


def test_an_unknown_machine_is_no_crash(tmp_path: Path) -> None:
    found = advise(probe(plant(tmp_path, {})), None, DEFAULTS, LlamaOptions(), catalogue=CATALOG)
    assert not found.has_fault
    assert "unknown CPU" in fact(found, "machine")


def test_weights_larger_than_the_ram_leave_cells_all_the_same(tmp_path: Path) -> None:
    """A mapped file may go and come: the daemon starts, slowly, with what its own memory allows."""
    big = with_model(size_bytes=4_000_000_000, file_bytes=1_500_000_000, anon_bytes=200_000_000, kv_bytes=400_000)
    found = report(vps_with_quota, tmp_path, big)
    assert 1024 <= advised(found)["engine.cells"] == advised(found)["engine.context"]  # type: ignore[operator]
    why = next(setting.why for setting in found.settings if setting.key == "engine.cells")
    assert "read from the disk again and again" in why


def test_cells_of_16_bits_are_advised_away(tmp_path: Path) -> None:
    values = advised(report(lxc, tmp_path, SAMPLE, engine__kv_type="f16", engine__flash_attention=False))
    assert (values["engine.kv_type"], values["engine.flash_attention"]) == ("q8_0", True)
    variants = {
        "as it is": Variant(decode=0.08, prefill=0.01, anon_bytes=1),
        "f16 cells": Variant(decode=0.1, prefill=0.01, anon_bytes=1),
    }
    found = report(lxc, tmp_path, with_model(variants=variants))
    assert "10 kB a token; f16 cells: answers 0.80x" in fact(found, "KV cache")
