"""The doctor's child process: `python -m reame.doctor.child ORDER`. What crashes here does not crash the doctor."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from reame.doctor import hardware, losslessness
from reame.doctor.bench import DEPTH, MAX_ROWS, Bench
from reame.doctor.clock import Clock, fastest
from reame.doctor.orders import Order, tell_doing, tell_end, tell_fact, tell_skipped
from reame.doctor.results import best_threads
from reame.errors import ReameError
from reame.host.contention import Watch
from reame.host.cpu import cpu_share
from reame.host.reading import ROOT, kilobytes, read

if TYPE_CHECKING:
    from collections.abc import Sequence

ROWS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32, 48, 64, 128, 256)
"""Row counts of the table T(rows): all small ones, where kernels work in groups and the curve is not smooth."""
FEW = 8
_LARGE = (128, 64, 32)
_ROUNDS, _MOST_STEPS = 2, 20
_BUSY = "import time\nend = time.monotonic() + {seconds}\nwhile time.monotonic() < end: pass"
"""A neighbour that never rests, and ends by itself when nobody ends it."""


def model(order: Order, clock: Clock) -> None:
    """Speed by threads, T(rows), the cells' way out and back, losslessness: the daemon's own settings."""
    tell_doing("loading the model", 0)
    bench = Bench(Path(order.model), order.options)
    _describe(bench)
    large, watch = _large(bench, clock), Watch(cpu_share())
    times = {name: _sweep(bench, order, clock, name, rows) for name, rows in (("decode", 1), ("prefill", large))}
    few = _sweep(bench, order, clock, "few", FEW)
    decode, prefill = best_threads(times["decode"]), best_threads(times["prefill"])
    if watch.look().is_noise:
        decode, prefill = order.options.threads, order.options.prefill_threads
    tell_fact("threads", (decode, prefill))
    tell_fact("steps", times["decode"][decode], 1)  # until `_curve` knows better
    tell_fact("steps", few[prefill], FEW)
    saving, restoring, size = bench.save_and_restore()
    tell_fact("save", saving / DEPTH)
    tell_fact("restore", restoring / DEPTH)
    tell_fact("kv_bytes", size // DEPTH)
    _compare_texts(bench, clock, prefill, row=times["prefill"][prefill], step=times["decode"][decode])
    _curve(bench, clock, decode, prefill, expected=few[prefill] / FEW)
    bench.close()


def variants(order: Order, clock: Clock) -> None:
    """Other ways to load the same model, each as fast as it can."""
    for i, (name, changes) in enumerate(order.variants.items()):
        if i and clock.left < clock.spent / i:
            tell_skipped(f"the model with {name}")
            continue
        tell_doing(f"the model with {name}", i / len(order.variants))
        bench = Bench(Path(order.model), evolve(order.options, **changes))
        allowance = clock.left / (len(order.variants) - i) / 3
        bench.threads(order.options.threads)
        decode = fastest(partial(bench.step, 1), seconds=allowance)
        large = _large(bench, clock)
        bench.threads(order.options.prefill_threads)
        prefill = fastest(partial(bench.step, large), seconds=allowance) / large
        tell_fact("variant", (decode, prefill, _memory("RssAnon")), name)
        bench.close()


def spin(order: Order, clock: Clock) -> None:
    """One length of spinning (it is read when the library loads): steps alone, then beside a busy process."""
    bench = Bench(Path(order.model), order.options)
    bench.threads(order.options.threads)
    alone = fastest(partial(bench.step, 1), seconds=clock.left / 4)
    seconds = clock.left / 2
    with subprocess.Popen([sys.executable, "-P", "-c", _BUSY.format(seconds=seconds + 1)]) as neighbour:
        try:
            time.sleep(0.1)  # until it runs
            steps, end = [bench.step(1)], time.monotonic() + seconds
            while time.monotonic() < end:
                steps.append(bench.step(1))
        finally:
            neighbour.kill()
    tell_fact("spin", (alone, sum(steps) / len(steps)), order.options.spin_count)
    bench.close()


def host(order: Order, clock: Clock) -> None:
    """Memory bandwidth and the disk, without a model."""
    tell_doing("memory bandwidth", 0)
    for threads in order.threads:
        tell_fact("bandwidth", hardware.bandwidth(threads, seconds=clock.left / 5), threads)
    tell_doing("disk", clock.share)
    try:
        write, read_back = hardware.disk_speed(Path(order.folder), seconds=clock.left)
    except OSError as error:
        tell_skipped(f"the disk below {order.folder} ({error.strerror})")
        return
    tell_fact("disk_write", write)
    tell_fact("disk_read", read_back)


TASKS = {task.__name__: task for task in (model, variants, spin, host)}


def _describe(bench: Bench) -> None:
    info = bench.engine.info
    tell_fact("load_seconds", bench.load_seconds)
    tell_fact("description", info.description)
    tell_fact("size_bytes", info.size_bytes)
    tell_fact("context_trained", info.context_trained)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_majflt
    bench.step(1)
    tell_fact("faults", resource.getrusage(resource.RUSAGE_SELF).ru_majflt - faults)
    tell_fact("anon_bytes", _memory("RssAnon"))
    tell_fact("file_bytes", _memory("RssFile"))


def _large(bench: Bench, clock: Clock) -> int:
    """Rows of a large step that takes at most a tenth of the time that is left, or the least."""
    row = bench.step(FEW) / FEW
    return next((rows for rows in _LARGE if rows * row < clock.left / 10), _LARGE[-1])


def _sweep(bench: Bench, order: Order, clock: Clock, name: str, rows: int) -> dict[int, float]:
    """Seconds by thread count, told as facts: of a step, but of a row when prompts are read.

    In two rounds: a neighbour that comes for a moment does not meet the same count twice.
    """
    times: dict[int, float] = {}
    allowance = clock.left / 5 / len(order.threads) / _ROUNDS
    for _ in range(_ROUNDS):
        for threads in order.threads:
            tell_doing(f"{'reading a prompt' if name == 'prefill' else 'decoding'}, {threads} threads", clock.share)
            bench.threads(threads)
            seconds = fastest(partial(bench.step, rows), seconds=allowance, most=_MOST_STEPS)
            each = seconds / rows if name == "prefill" else seconds
            times[threads] = min(each, times.get(threads, each))
            tell_fact(name, times[threads], threads)
    return times


def _compare_texts(bench: Bench, clock: Clock, threads: int, *, row: float, step: float) -> None:
    """Three times a prompt, and three times a few tokens. `row`, `step`: seconds of a prompt's token and of a step."""
    if clock.left < 1.5 * (losslessness.ROWS * row + losslessness.STEPS * step):
        tell_skipped("the comparison of texts computed warm and in a crowd")
        return
    tell_doing("is every text the same, warm and in a crowd?", clock.share)
    bench.engine.set_threads(threads, threads)
    tell_fact("lossless", losslessness.check(bench.engine))
    bench.refill()


def _curve(bench: Bench, clock: Clock, decode: int, prefill: int, *, expected: float) -> None:
    """T(rows) with the threads that the daemon will use: one row has its own, all others those of prompts.

    `expected`: about how many seconds a row takes. Row counts for which there is no time are left out, and all above.
    """
    allowance = clock.left / 2
    weight = sum(ROWS)
    for rows in ROWS:
        if rows > MAX_ROWS or rows * expected * 2 > clock.left:
            tell_skipped(f"steps of {rows} rows and more")
            break
        tell_doing(f"steps of {rows} rows", clock.share)
        bench.engine.set_threads(decode, prefill)
        seconds = fastest(partial(bench.step, rows), seconds=max(0.1, allowance * rows / weight))
        tell_fact("steps", seconds, rows)


def _memory(key: str) -> int:
    return kilobytes(read(ROOT, "proc/self/status"), key) or 0


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 after `refused`; a crash is a crash."""
    if len(arguments) != 1:
        print("usage: python -m reame.doctor.child ORDER (JSON); `reame doctor` calls it", file=sys.stderr)
        return 2
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    order = Order.from_json(arguments[0])
    try:
        TASKS[order.task](order, Clock(order.seconds))
    except ReameError as error:
        tell_end(refused=str(error))
        return 1
    tell_end()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
