"""A measurement with round numbers, as if it came from a quiet two-core machine and a 1 GB model."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from reame.doctor.results import Lossless, Measured, ModelMeasured, Spin, Variant
from reame.host.contention import Contention

QUIET = Contention(stolen=0.0, others=0.0)
BUSY = Contention(stolen=0.0, others=1.2)

STEPS = {1: 0.08, 2: 0.12, 4: 0.14, 8: 0.20, 16: 0.32, 32: 0.56, 64: 1.0, 128: 1.6, 256: 3.2}

MODEL = ModelMeasured(
    name="sample-1b",
    description="sample 1B Q4_K - Medium",
    size_bytes=1_000_000_000,
    context_trained=32_768,
    load_seconds=1.0,
    kv_bytes=10_000,
    anon_bytes=1_100_000_000,
    file_bytes=1_000_000_000,
    faults=0,
    threads=2,
    prefill_threads=2,
    decode={1: 0.13, 2: 0.08},
    few={1: 0.36, 2: 0.20},
    prefill={1: 0.025, 2: 0.0125},
    steps=STEPS,
    save=20e-6,
    restore=5e-6,
    lossless=Lossless(warm=0.0, crowd=0.0, same_text=True),
    variants={
        "the settings as they are": Variant(decode=0.08, prefill=0.0125, anon_bytes=1_100_000_000),
        "repacked weights off": Variant(decode=0.09, prefill=0.012, anon_bytes=100_000_000),
    },
    spins={3000: Spin(alone=0.08, beside=0.16), 1000: Spin(alone=0.084, beside=0.15), 0: Spin(alone=0.078, beside=0.4)},
)

SAMPLE = Measured(
    seconds=50.0,
    contention=QUIET,
    bandwidth={1: 12e9, 2: 20e9},
    disk_write=500e6,
    disk_read=1e9,
    model=MODEL,
)


def with_model(**changes: Any) -> Measured:
    return evolve(SAMPLE, model=evolve(MODEL, **changes))
