"""Losslessness of drafts: many prompts, greedy and seeded, free and under a schema, with no source of drafts, each of
them, and all, for one user and for four: the same tokens, finish reasons and usage."""

from __future__ import annotations

import sys
from pathlib import Path

from _drill import MODEL, arguments, scratch, verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from draft_matrix import SOURCES, Matrix, open_archive, requests

from reame.catalog import resolve
from reame.engine.llama import LlamaEngine, LlamaOptions


def main() -> int:
    options = arguments(__doc__, count=200, tokens=48)
    engine = LlamaEngine(
        resolve(MODEL), LlamaOptions(num_cells=4096, num_seqs=8, max_rows=128, threads=2, prefill_threads=2)
    )
    faults = []
    with scratch() as folder:
        matrix = Matrix(engine, open_archive(engine, folder))
        asked = requests(engine, options.count, options.tokens)
        plain = matrix.run(asked, (), 1, keep=True)
        for names in ((), *((name,) for name in SOURCES), SOURCES):
            for users in (1, 4):
                told = matrix.run(asked, names, users)
                wrong = [name for name in plain if told.get(name) != plain[name]]
                print(f"{users} users, {'+'.join(names) or 'no drafts'}: {len(told)} requests, {len(wrong)} differ")
                faults += [f"{names} {users}: {told.get(name)} instead of {plain[name]}" for name in wrong]
    print("accepted tokens: " + ", ".join(f"{source} {count}" for source, count in matrix.accepted.items()))
    faults += [f"no draft of {name} came true" for name in SOURCES if not matrix.accepted.get(name)]
    matrix.close()
    engine.close()
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
