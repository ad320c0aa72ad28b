"""Decode speed with every thread count that this process may use, in turns, against the quick choice.

Only worth reading on a machine where nobody else works; the drill says how much others take.
"""

from __future__ import annotations

import sys
from statistics import median

from _drill import MODEL, arguments, verdict
from attrs import evolve

from reame.catalog import resolve
from reame.doctor.bench import DEPTH, MAX_ROWS, NUM_CELLS, Bench
from reame.doctor.results import best_threads
from reame.engine.llama import LlamaOptions
from reame.host.contention import Watch
from reame.host.cpu import cpu_share, default_threads

LARGE = 64
"""Rows of a step that reads a prompt."""


def main() -> int:
    options = arguments(__doc__, count=15, at_least=0.9)
    share = cpu_share()
    quick, watch = default_threads(share), Watch(share)
    counts = range(1, max(1, int(share.usable)) + 1)
    engine = evolve(LlamaOptions(), num_cells=NUM_CELLS, num_seqs=1, max_rows=MAX_ROWS, max_sampled=DEPTH)
    bench = Bench(resolve(MODEL), evolve(engine, threads=quick.value, prefill_threads=quick.value))
    faults = []
    for what, rows in (("answers", 1), ("prompts", LARGE)):
        times: dict[int, list[float]] = {count: [] for count in counts}
        for _ in range(options.count):
            for count in counts:
                bench.threads(count)
                times[count].append(bench.step(rows))
        middle = {count: median(seconds) for count, seconds in times.items()}
        share_of_best = min(middle.values()) / middle[quick.value]
        rates = ", ".join(f"{count}: {rows / seconds:.1f}" for count, seconds in middle.items())
        print(f"{what}, tok/s by threads: {rates}; doctor: {best_threads(middle)}; {quick.reason}: {share_of_best:.0%}")
        if share_of_best < options.at_least:
            faults.append(f"{what}: the quick choice reaches {share_of_best:.0%} of the best")
    print(f"others took {watch.look().others:.2f} cores")
    bench.close()
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
