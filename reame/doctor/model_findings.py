"""What the measurement of a model says that a person should know. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.doctor.advice import Fact, Finding, Level
from reame.doctor.outlook import (
    breakeven_prefix,
    cheapest_draft,
    draft_breakeven,
    seconds,
    users,
)
from reame.doctor.words import count, percent, rate, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.doctor.results import Measured, ModelMeasured
    from reame.engine.llama import LlamaOptions
    from reame.host.probe import Machine

_DRAFTS_PAY = 0.7
"""Free drafts (from the archive, the prompt, a grammar) are right about this often where they are right at all."""
_MANY_USERS = 64
_STOLEN = 0.01


def model_findings(measured: Measured, machine: Machine, options: LlamaOptions, *, mlock: bool) -> Iterator[Finding]:
    """The gravest first."""
    yield from (Finding(Level.FAULT, fault) for fault in measured.faults)
    noise = measured.contention
    if noise.is_noise:
        taken = f", and the hypervisor took {percent(noise.stolen)}" if noise.stolen > _STOLEN else ""
        yield Finding(
            Level.WARNING,
            f"other processes used {noise.others:.1f} CPUs meanwhile{taken}: the speeds are too low, and what needs "
            "finer comparison (threads, drafts, spinning, repacked weights) is left as it is",
            "run `reame doctor` again when nothing else runs",
        )
    if measured.model is not None:
        yield from _memory(measured.model, machine, mlock=mlock)
        yield from _lossless(measured.model, options)
        if not noise.is_noise:
            yield from _choices(measured.model)
    if measured.skipped:
        yield Finding(Level.NOTE, f"there was no time for: {'; '.join(measured.skipped)}")


def model_facts(measured: Measured) -> Iterator[Fact]:
    """What this machine can do with the model, in numbers."""
    model = measured.model
    if model is None:
        return
    decode, prefill = min(model.decode.values()), min(model.prefill.values())
    yield Fact(name="one user", text=f"answers at {rate(1 / decode)}, prompts read at {rate(1 / prefill)}")
    if model.steps:
        most = users(model.steps, most=_MANY_USERS)
        together = rate(most / seconds(model.steps, most)) if most else ""
        text = f"{most} at 5 tok/s or more each, {together} together" if most else "none at reading speed (5 tok/s)"
        yield Fact(name="users at once", text=text, is_estimate=True)
    if model.steps and not measured.contention.is_noise:
        one = seconds(model.steps, 1)
        gains = ", ".join(f"{rows} users {rows * one / seconds(model.steps, rows):.1f}x" for rows in (2, 4, 8))
        yield Fact(name="together", text=f"{gains} as fast as in turn")
        yield Fact(name="drafts", text=_drafts(model), is_estimate=True)
    elif model.steps:
        text = "not judged beside others; while it serves, the daemon weighs each draft by what its own steps take"
        yield Fact(name="drafts", text=text)
    yield from _prefixes(measured)
    if model.kv_bytes:
        yield Fact(name="KV cache", text=f"{size(model.kv_bytes)} a token{_other_cells(measured)}")
    yield Fact(name="start", text=f"the model loads in {model.load_seconds:.1f} s when its file is in memory")


def _prefixes(measured: Measured) -> Iterator[Fact]:
    least = breakeven_prefix(measured)
    if least is not None:
        when = f"from {count(least, 'token')} on" if least > 1 else "whatever its length"
        text = f"one that the disk remembers comes quicker than computing it, {when}"
        yield Fact(name="prefixes", text=text, is_estimate=True)
    elif measured.model is not None and measured.model.restore is not None:
        text = "computing one is as quick as reading it from the disk: memory.enabled = false saves the room"
        yield Fact(name="prefixes", text=text, is_estimate=True)


def _other_cells(measured: Measured) -> str:
    """Decode speed with other kinds of cells, against the present ones."""
    model = measured.model
    if model is None or measured.contention.is_noise or not model.variants:
        return ""
    now = next(iter(model.variants.values())).decode
    kinds = {name: it for name, it in model.variants.items() if "cells" in name}
    return "".join(f"; {name}: answers {now / it.decode:.2f}x as fast" for name, it in kinds.items())


def _drafts(model: ModelMeasured) -> str:
    length, price = cheapest_draft(model.steps)
    share = draft_breakeven(model.steps, length)
    if share is None:
        return "do not pay here: a step with more rows costs as much as so many steps"
    verdict = "pay" if share < _DRAFTS_PAY else "pay for text that repeats itself only"
    return f"{verdict}: {length} of them cost {price - 1:.1f} steps, won back when {percent(share)} are right"


def _memory(model: ModelMeasured, machine: Machine, *, mlock: bool) -> Iterator[Finding]:
    locked = machine.ram.memlock
    if mlock and locked is not None and locked < model.size_bytes:
        yield Finding(
            Level.WARNING,
            f"model.mlock needs a limit of {size(model.size_bytes)}, and here it is {size(locked)}",
            "put LimitMEMLOCK=infinity into the systemd unit, or raise `ulimit -l`",
        )
    if model.faults > 1:
        yield Finding(
            Level.WARNING,
            f"a token waited {model.faults:.0f} times for the disk: the weights do not stay in RAM",
            "take a smaller model, or end what else uses the memory; model.mlock = true holds them",
        )
    doubled = model.anon_bytes > 0.8 * model.size_bytes and model.file_bytes > 0.8 * model.size_bytes
    if doubled and 2 * model.size_bytes > machine.ram.most / 2:
        yield Finding(
            Level.WARNING,
            f"repacked weights are a second copy: {size(model.anon_bytes)} beside {size(model.file_bytes)} of the file",
            'model.mmap = false keeps one copy; engine.extra_buffers = "off" makes none',
        )


def _lossless(model: ModelMeasured, options: LlamaOptions) -> Iterator[Finding]:
    found = model.lossless
    if found is None:
        return
    if not found.warm and not found.crowd:
        yield Finding(
            Level.GOOD, "losslessness: to the last bit the same text cold and warm, alone and among seven others"
        )
        return
    where = " and ".join(
        f"{words} (log-probabilities move by up to {moved:.2g})"
        for words, moved in (("warm", found.warm), ("in a crowd", found.crowd))
        if moved
    )
    text = "the sample text stayed the same" if found.same_text else "the sample text changed"
    yield Finding(
        Level.NOTE,
        f"losslessness: not identical {where}; {text}. {model.description} rounds differently in larger batches",
        "engine.exact = true makes it identical, and reads prompts at about half speed; Q4_0, Q4_1, Q5_0 and Q8_0 "
        "weights are identical as they are, and with engine.own_kernels Q4_K, Q5_K and Q6_K ones on x86"
        if options.kv_type == "q8_0" and not options.exact
        else 'engine.kv_type = "q8_0" with flash attention and engine.exact = true make it identical',
    )


def _choices(model: ModelMeasured) -> Iterator[Finding]:
    """Where one thing is traded for another: a person may know better which of them counts."""
    base, *others = model.variants.items() or [("", None)]
    name, other = next(((name, it) for name, it in others if name.startswith("repacked")), ("", None))
    if base[1] is None or other is None:
        return
    decode, prefill = base[1].decode / other.decode, base[1].prefill / other.prefill
    if max(decode, prefill) > 1.1:
        yield Finding(
            Level.NOTE,
            f"{name}: answers {decode:.2f}x and prompts {prefill:.2f}x as fast as now",
            "engine.extra_buffers decides this: chats want fast answers, long documents fast prompts; what is repacked "
            "is computed by llama.cpp, whose texts depend on what shares a step",
        )
