"""Which values of the configuration are right here. Pure; what is right already is not named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.doctor.advice import Own, Setting
from reame.doctor.results import Spin
from reame.doctor.words import size
from reame.engine.spin import SHORT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reame.config import Config
    from reame.doctor.results import Measured, ModelMeasured
    from reame.engine.footprint import Footprint
    from reame.engine.llama import LlamaOptions
    from reame.host.cpu import Threads
    from reame.host.probe import Machine

_SPARE_RAM = 0.85
"""Of what is available may be planned for; the rest is for moments."""
_LOGITS_AND_BUFFERS = 150 << 20
_MOST_CELLS = 4
"""Times the context: more residents than that are seldom asked for again, and a wide cache slows attention."""
_FEWEST = 1024
"""Cells below which nothing is proposed."""
_DISK_SHARE, _LEAST_DISK_MB, _MOST_DISK_MB = 0.2, 256, 32_768
_CLEARLY = 1.1
"""A measured setting must be this much better to be worth a change."""
_PROMPT, _ANSWER = 4, 1
"""Tokens of prompt computed for each token of answer, in the mix that repacking is judged by."""


def settings(
    machine: Machine,
    measured: Measured | None,
    config: Config,
    options: LlamaOptions,
    *,
    memory: Footprint | None,
    own: Own,
) -> Iterator[Setting]:
    """`options` are those of the measurement: the config's, with all that it leaves open decided. `memory`: what the
    model takes with them. `own`: what Reame has of the machine already.
    """
    if measured is None or measured.model is None or measured.contention.is_noise:
        yield from _no_more_threads_than_cpus(machine, config)
    else:
        yield from _threads(machine.threads, measured.model, config)
        yield from _spin(measured.model, config)
        yield from _repacking(measured.model, config, options)
    if measured is not None and measured.model is not None:
        yield from _cells_kind(config)
        if not own.serves:
            yield from _room(machine, measured.model, config, options, idle=memory.idle if memory else 0)
    if machine.disk is not None and not machine.disk.read_only:
        yield from _disk(machine.disk.free + own.disk_bytes, machine.disk.mount, config)


def _no_more_threads_than_cpus(machine: Machine, config: Config) -> Iterator[Setting]:
    """All that can be said without a good measurement."""
    most = machine.share.most_threads
    for name in ("threads", "prefill_threads"):
        if getattr(config.engine, name) > most:
            yield Setting(f"engine.{name}", 0, machine.threads.reason)


def _threads(quick: Threads, model: ModelMeasured, config: Config) -> Iterator[Setting]:
    """0 follows quota and affinity when they change, so it is kept where it comes to the same."""
    threads, prefill = config.engine.threads, config.engine.prefill_threads
    if (threads or quick.value) != model.threads:
        threads = 0 if model.threads == quick.value else model.threads
        yield Setting("engine.threads", threads, "the fastest answers", is_measured=True)
    if model.prefill_threads == (threads or quick.prefill):
        if prefill:
            yield Setting("engine.prefill_threads", 0, "what threads brings with it", is_measured=True)
    elif prefill != model.prefill_threads:
        yield Setting("engine.prefill_threads", model.prefill_threads, "the fastest prompts", is_measured=True)


def _spin(model: ModelMeasured, config: Config) -> Iterator[Setting]:
    """The least product of both times: neither a good neighbour nor a bad one decides alone. 0 follows the company, and
    has the best of both."""
    if not config.engine.spin_count:
        return
    now = model.spins.get(config.engine.spin_count)
    if now is None:
        return
    spins = dict(model.spins)
    if 0 in spins and SHORT in spins:
        spins[0] = Spin(alone=spins[0].alone, beside=spins[SHORT].beside)
    best = min(spins, key=lambda count: _product(spins[count]))
    other = spins[best]
    if _product(now) > _CLEARLY**2 * _product(other):
        why = (
            f"a step takes {1e3 * other.alone:.0f} ms alone and {1e3 * other.beside:.0f} ms beside a busy process, "
            f"not {1e3 * now.alone:.0f} and {1e3 * now.beside:.0f}"
        )
        yield Setting("engine.spin_count", best, why, is_measured=True)


def _product(spin: Spin) -> float:
    return spin.alone * spin.beside


def _repacking(model: ModelMeasured, config: Config, options: LlamaOptions) -> Iterator[Setting]:
    """By the time that a mix of prompts and answers takes."""
    if options.exact or (config.engine.extra_buffers == "auto" and not options.extra_buffers):
        return  # nothing to choose: it crashes with them, or own kernels are exact where repacked ones are not
    items = list(model.variants.items())
    other = next((it for name, it in items[1:] if name.startswith("repacked")), None)
    if other is None:
        return
    times = [_PROMPT * it.prefill + _ANSWER * it.decode for it in (items[0][1], other)]
    if times[0] > _CLEARLY * times[1]:
        value = "off" if options.extra_buffers else "on"
        why = f"{times[0] / times[1]:.2f}x as fast with {_PROMPT} tokens of prompt for each of answer"
        yield Setting("engine.extra_buffers", value, why, is_measured=True)


def _cells_kind(config: Config) -> Iterator[Setting]:
    """q8_0 with flash attention: half of f16's memory, and the only pair whose results do not depend on the batch."""
    engine = config.engine
    if engine.kv_type == "f16":
        yield Setting("engine.kv_type", "q8_0", "half the memory of f16, and the same text alone and in a crowd")
    if not engine.flash_attention:
        yield Setting("engine.flash_attention", True, "decoding stays fast while others fill the cache")


def _room(
    machine: Machine, model: ModelMeasured, config: Config, options: LlamaOptions, *, idle: int
) -> Iterator[Setting]:
    """Context and cells that the RAM holds. Cells beyond the context keep finished sequences for their next turn.

    `idle` bytes of the file are not looked at after loading.
    """
    engine = config.engine
    context = min(engine.context, model.context_trained or engine.context)
    free = int(_SPARE_RAM * min(machine.ram.most, machine.ram.available + model.file_bytes)) - model.anon_bytes
    free -= _LOGITS_AND_BUFFERS
    beside = free - (model.size_bytes - idle if options.mmap else 0)
    why = f"{size(max(0, beside))} of RAM are left beside the model"
    if beside < _FEWEST * model.kv_bytes:  # the weights are pages of a file, which may go and come
        beside, why = free, "the weights do not fit beside more, and are read from the disk again and again"
    room = max(0, beside) // max(1, model.kv_bytes)
    cells = min(room // 1024 * 1024, _MOST_CELLS * context)
    now = engine.cells or 2 * engine.context
    if cells < context:
        if cells >= _FEWEST and now > room:
            yield Setting("engine.context", cells, "more does not fit into the RAM")
            yield Setting("engine.cells", cells, why)
    elif now > room or now < cells:
        if cells < engine.context:
            yield Setting("engine.context", context, "the model was trained for no more")
        yield Setting("engine.cells", cells, f"{size(cells * model.kv_bytes)} for what is remembered live; {why}")


def _disk(free: int, mount: str, config: Config) -> Iterator[Setting]:
    """A fifth of what is `free` or taken by us already, in whole GiB where there are some."""
    share = int(_DISK_SHARE * free) >> 20
    best = max(_LEAST_DISK_MB, min(_MOST_DISK_MB, share // 1024 * 1024 or share // 256 * 256))
    now = config.memory.disk_mb
    if now > 0.8 * (free >> 20) or best > 2 * now:
        yield Setting("memory.disk_mb", best, f"a fifth of the {size(free)} that are free on {mount}")
