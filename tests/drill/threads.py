"""Decode and prompt speed with every number of threads against the quick choice: free, on one CPU, under CPU quotas.

Each situation is a child process: confined before it starts, it makes its own choice. There the numbers of threads take
turns, in rounds of half a second each, so that a neighbour meets all of them; a round in which others were busy is
repeated (with --patience 0 it counts). Judged is the mean speed, as a quota's stops are few and long, of the same
rounds, by their median.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING

from _drill import MODEL, arguments, verdict
from attrs import evolve

from reame.catalog import resolve
from reame.doctor.bench import DEPTH, MAX_ROWS, NUM_CELLS, Bench
from reame.engine.llama import LlamaOptions
from reame.host.cgroup import folders
from reame.host.contention import Watch
from reame.host.cpu import cpu_share, default_threads, online_cpus
from reame.host.reading import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

KINDS = {"answers": 1, "prompts": 64}
"""What is computed, and rows of its steps."""
STRETCH_S = 0.5
PERIOD_US = 100_000
QUOTAS = (1.0, 1.25, 1.5, 1.75)


def measure(count: int, patience: int) -> None:
    """In a situation: prints the speeds of `count` quiet rounds by kind and threads, as JSON."""
    share = cpu_share()
    quick = default_threads(share)
    engine = evolve(LlamaOptions(), num_cells=NUM_CELLS, num_seqs=1, max_rows=MAX_ROWS, max_sampled=DEPTH)
    bench = Bench(resolve(MODEL), evolve(engine, threads=quick.value, prefill_threads=quick.value))
    rates: dict[str, list[dict[int, float]]] = {kind: [] for kind in KINDS}
    loud = 0
    for kind, rows in KINDS.items():
        while len(rates[kind]) < count and loud <= patience:
            watch = Watch(share)
            found = {threads: rate(bench, threads, rows) for threads in range(1, online_cpus() + 1)}
            if patience and watch.look().is_noise:
                loud += 1
            else:
                rates[kind].append(found)
    bench.close()
    chosen = {"answers": quick.value, "prompts": quick.prefill}
    print(json.dumps({"quick": chosen, "why": quick.reason, "loud": loud, "rates": rates}))


def rate(bench: Bench, threads: int, rows: int) -> float:
    """Rows a second, over a stretch."""
    bench.threads(threads)
    done, started = 0, time.perf_counter()
    while not done or time.perf_counter() - started < STRETCH_S:
        bench.step(rows)
        done += rows
    return done / (time.perf_counter() - started)


@contextmanager
def free() -> Iterator[list[str]]:
    yield []


@contextmanager
def one_cpu() -> Iterator[list[str]]:
    yield ["taskset", "-c", str(min(os.sched_getaffinity(0)))]


@contextmanager
def quota(cpus: float) -> Iterator[list[str]]:
    """A cgroup below this process's own. OSError when none may be made."""
    parent = next(ROOT / folder for folder in folders(ROOT, "cpu") if (ROOT / folder / "cgroup.procs").exists())
    group = parent / f"reame-drill-{os.getpid()}"
    group.mkdir()
    try:
        if (group / "cpu.cfs_quota_us").exists():
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(cpus * PERIOD_US)))
        else:
            (group / "cpu.max").write_text(f"{int(cpus * PERIOD_US)} {PERIOD_US}")
        yield ["sh", "-c", f'echo $$ >{group}/cgroup.procs && exec "$0" "$@"']
    finally:
        group.rmdir()


def judge(what: str, told: dict[str, object], count: int, at_least: float) -> list[str]:
    faults = []
    chosen, all_rates = told["quick"], told["rates"]
    assert isinstance(chosen, dict)
    assert isinstance(all_rates, dict)
    for kind, rounds in all_rates.items():
        if len(rounds) < count:
            faults.append(f"{what}, {kind}: others were busy in {told['loud']} rounds, and {len(rounds)} are too few")
        if not rounds:
            continue
        middle = {threads: median(found[threads] for found in rounds) for threads in rounds[0]}
        best = max(middle, key=lambda threads: middle[threads])
        quick = str(chosen[kind])
        reached = median(found[quick] / found[best] for found in rounds)
        speeds = ", ".join(f"{threads}: {speed:.1f}" for threads, speed in middle.items())
        print(f"{what}, {kind}, tok/s by threads: {speeds}; {quick} taken: {reached:.0%} of the best", flush=True)
        if reached < at_least:
            faults.append(f"{what}, {kind}: the quick choice reaches {reached:.0%} of the best")
    return faults


def main() -> int:
    options = arguments(__doc__, count=9, at_least=0.9, patience=60, inside=0)
    if options.inside:
        measure(options.count, options.patience)
        return 0
    situations: dict[str, AbstractContextManager[list[str]]] = {
        "free": free(), "one CPU": one_cpu(), **{f"quota of {cpus}": quota(cpus) for cpus in QUOTAS},
    }  # fmt: skip
    words = [sys.executable, __file__, "--inside=1", f"--count={options.count}", f"--patience={options.patience}"]
    faults = []
    for what, confined in situations.items():
        try:
            with confined as before:
                done = subprocess.run([*before, *words], check=True, stdout=subprocess.PIPE, text=True)
        except (OSError, StopIteration) as error:
            faults.append(f"{what}: this situation cannot be made here ({error})")
            continue
        faults += judge(what, json.loads(done.stdout), options.count, options.at_least)
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
