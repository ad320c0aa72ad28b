"""llama-bench: the bare engine of the same build, without HTTP, tokenising and sampling. The ceiling for a server."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from attrs import frozen

from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.sides import Setup


@frozen
class Test:
    """One llama-bench test that stands for a metric: reading `prompt` tokens, or generating `answer` (other one 0)."""

    metric: str
    prompt: int
    answer: int


def command(binaries: Path, setup: Setup, tests: Sequence[Test]) -> list[str]:
    prompts = ",".join(str(test.prompt) for test in tests if test.prompt) or "0"
    answers = ",".join(str(test.answer) for test in tests if test.answer) or "0"
    return [
        *(str(binaries / "llama-bench"), "-m", str(setup.model), "-t", str(setup.threads), "-fa", "on"),
        *("-ctk", setup.kv_type, "-ctv", setup.kv_type, "-p", prompts, "-n", answers, "-r", "1", "-o", "json"),
    ]


def rates(output: str, tests: Sequence[Test]) -> dict[str, float]:
    """Tokens a second by metric, from the JSON that llama-bench printed."""
    found = {(row["n_prompt"], row["n_gen"]): float(row["avg_ts"]) for row in json.loads(output)}
    return {test.metric: found[test.prompt, test.answer] for test in tests}


def run(binaries: Path, setup: Setup, tests: Sequence[Test]) -> dict[str, float]:
    """Every test once, in one process, after llama-bench's own warm-up."""
    done = subprocess.run(command(binaries, setup, tests), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"llama-bench ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
    return rates(done.stdout, tests)
