"""From what was probed and measured to a report. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.doctor.advice import Fact, Finding, Level, Own, Report
from reame.doctor.machine_findings import machine_findings
from reame.doctor.model_findings import model_facts, model_findings
from reame.doctor.outlook import fits
from reame.doctor.settings import settings
from reame.doctor.words import count, size

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from reame.catalog import Entry
    from reame.config import Config
    from reame.doctor.results import Measured
    from reame.engine.footprint import Footprint
    from reame.engine.llama import LlamaOptions
    from reame.host.probe import Machine

_ORDER = list(Level)
NOTHING = Own()


def advise(
    machine: Machine,
    measured: Measured | None,
    config: Config,
    options: LlamaOptions,
    *,
    catalogue: Iterable[Entry],
    memory: Footprint | None = None,
    more: Iterable[Finding] = (),
    own: Own = NOTHING,
) -> Report:
    """`measured` None: nothing ran. `options`: what the model was, or would be, loaded with. `memory`: what the daemon
    takes then. `more`: findings of the caller's own, such as a model that is not there. `own`: what Reame has of the
    machine already.

    Where llama.cpp would crash there is nothing to set, and no model to propose.
    """
    found = [*more, *machine_findings(machine)]
    if own.serves:
        what = "a daemon of Reame runs here, and what it holds is not free: nothing is said about context and cells"
        found.append(Finding(Level.NOTE, what, "stop it and run `reame doctor` again for that"))
    if measured is not None:
        found += model_findings(measured, machine, options, mlock=config.model.mlock)
    facts = [*_machine_facts(machine, measured), *(model_facts(measured) if measured else ())]
    if memory is not None:
        facts.append(_memory_fact(memory))
    crashes = bool(machine.missing)
    return Report(
        machine=machine,
        measured=measured,
        facts=tuple(facts),
        findings=tuple(sorted(found, key=lambda finding: _ORDER.index(finding.level))),
        settings=() if crashes else tuple(settings(machine, measured, config, options, memory=memory, own=own)),
        fits=() if crashes else tuple(fits(catalogue, measured, machine.ram.most)),
    )


def _memory_fact(memory: Footprint) -> Fact:
    """As configured: before what is advised."""
    copied = f", {size(memory.weights)} of it repacked weights" if memory.pages and memory.weights else ""
    pages = f", and {size(memory.pages)} of the model's file as long as there is room" if memory.pages else ""
    return Fact(name="memory", text=f"the daemon holds {size(memory.held)}{copied}{pages}", is_estimate=True)


def _machine_facts(machine: Machine, measured: Measured | None) -> Iterator[Fact]:
    place, share, ram = machine.place, machine.share, machine.ram
    around = ", ".join(filter(None, (place.cloud, place.hypervisor, place.container)))
    what = f"{place.cpu or 'unknown CPU'} ({place.machine})"
    yield Fact(name="machine", text=f"{what}, {around}" if around else what)
    yield Fact(name="CPUs", text=_cpus(machine))
    limit = f", limited to {size(ram.limit)}" if ram.limit else ""
    swap = f"{size(ram.swap_total)} of swap" if ram.swap_total else "no swap"
    yield Fact(name="RAM", text=f"{size(ram.total)}{limit}, {size(ram.available)} available, {swap}")
    if machine.disk is not None:
        kind = f" ({machine.disk.kind})" if machine.disk.kind else ""
        yield Fact(name="disk", text=f"{size(machine.disk.free)} free on {machine.disk.mount}{kind}")
    if measured is None:
        yield Fact(name="threads", text=machine.threads.reason, is_estimate=True)
        return
    if measured.bandwidth:
        yield Fact(name="bandwidth", text=f"{size(max(measured.bandwidth.values()))}/s, copying")
    if measured.disk_write and measured.disk_read:
        yield Fact(name="disk speed", text=f"writes {size(measured.disk_write)}/s, reads {size(measured.disk_read)}/s")
    model = measured.model
    if model is None or measured.contention.is_noise:
        yield Fact(name="threads", text=machine.threads.reason, is_estimate=True)
    else:
        answers, prompts = count(model.threads, "thread"), model.prefill_threads
        both = answers if model.threads == prompts else f"{answers} for answers, {prompts} for prompts"
        tried = ", ".join(map(str, sorted(model.decode)))
        yield Fact(name="threads", text=f"{both}: the fastest of {tried} ({share.usable:.4g} CPUs usable)")


def _cpus(machine: Machine) -> str:
    share = machine.share
    text = f"{len(share.cpus)} of {machine.online}" if len(share.cpus) < machine.online else f"{machine.online}"
    cores = f" on {count(share.cores, 'core')}" if share.cores != len(share.cpus) else ""
    fast = f", {share.fast_cores} of them fast" if share.fast_cores else ""
    quota = f", quota {share.quota:.4g}" if share.quota is not None else ""
    wanted = ("avx512f", "avx2", "avx", "sve", "i8mm", "asimddp", "asimd")
    sets = [name for name in wanted if name in machine.features][:2]
    return f"{text}{cores}{fast}{quota}" + (f"; {', '.join(sets)}" if sets else "")
