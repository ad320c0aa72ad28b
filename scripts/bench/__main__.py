"""The command line of the benchmark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from attrs import evolve
from cyclopts import App, Parameter, validators
from rich.console import Console

from bench import machine, peers
from bench.errors import BenchError
from bench.harness import Options, Result, play
from bench.report import table, to_json
from bench.scenario import FULL, QUICK
from bench.scenarios import SCENARIOS
from bench.sides import LLAMA_SERVER, REAME
from reame.catalog import identify, models_dir, resolve
from reame.errors import ReameError

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 118
AT_LEAST_ONE = Parameter(validator=validators.Number(gte=1))
SAY = Console(stderr=True, highlight=False, soft_wrap=True)

app = App(
    name="scripts/bench/run",
    help="Reame beside llama-server and llama-bench of the same llama.cpp build. docs/benchmarks.md explains.",
    version_flags=[],
)


@app.default
def bench(
    *,
    scenario: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    model: str = "smollm2-135m",
    rounds: Annotated[int | None, AT_LEAST_ONE] = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    threads: Annotated[int | None, AT_LEAST_ONE] = None,
    seed: int | None = None,
    quiet_wait: float = 10.0,
    peer_bin: Path | None = None,
    json: Path | None = None,
    same: Annotated[bool, Parameter(negative="")] = False,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
) -> int:
    """Play the scenarios and print a table for each.

    Parameters
    ----------
    scenario
        Only this one; may be given several times. All by default, but for the quiz, which takes half an hour a round.
    model
        A name that `reame list` shows, or the path of a .gguf file.
    rounds
        Runs of each side; 7 by default, 3 with --quick.
    quick
        Shorter prompts and answers, three rounds: minutes, and wider spreads.
    threads
        Threads of every engine; all cores of this process by default.
    seed
        Of the prompts; drawn and printed by default, so that no run can be tuned for.
    quiet_wait
        Wait so many seconds at most before each run until others use less than 0.1 cores.
    peer_bin
        Directory with llama-server and llama-bench; by default they are built, once.
    json
        Write every run and every ratio to this file.
    same
        Check the harness: llama-server takes Reame's place, so no ratio may come out.
    list_
        Name the scenarios and end.
    """
    if list_:
        for known in SCENARIOS:
            print(f"{known.name:10} {known.title}: {known.shows}. Favours {known.favours}.")
        return 0
    known_names = [known.name for known in SCENARIOS]
    if unknown := [name for name in scenario if name not in known_names]:
        raise BenchError(f"no scenario is called {', '.join(unknown)}: there are {', '.join(known_names)}")
    options = Options(
        model=model_file(model),
        binaries=(peer_bin or peers.obtain()).absolute(),
        threads=threads or len(os.sched_getaffinity(0)),
        rounds=rounds or (3 if quick else 7),
        seed=seed or random.SystemRandom().randrange(1, 1 << 31),
        scale=QUICK if quick else FULL,
        quiet_wait_s=quiet_wait,
    )
    by_default = tuple(known.name for known in SCENARIOS if known.by_default)
    run(options, scenario or by_default, same=same, json=json)
    return 0


def model_file(spec: str) -> Path:
    """The file of a model, fetched first when the catalogue knows it and it is not here."""
    named = identify(spec, models_dir())
    if named.source is not None and not named.path.exists():
        pull = subprocess.run([Path(sys.executable).with_name("reame"), "pull", spec], check=False)
        if pull.returncode:
            raise BenchError(f"without the model {named.name} there is nothing to measure")
    return resolve(spec).absolute()


def run(options: Options, names: tuple[str, ...], *, same: bool, json: Path | None) -> None:
    """Play, print and write. The JSON is written after every scenario, so that a stopped benchmark keeps the others."""
    facts = {
        **machine.facts(ROOT),
        "llama_server": machine.llama_server_version(options.binaries),
        "model": options.model.name,
        "threads": options.threads,
        "seed": options.seed,
        "rounds": options.rounds,
        "quick": options.scale is QUICK,
    }
    SAY.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    ours = evolve(LLAMA_SERVER, label="llama-server (A)") if same else REAME
    out = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    results: list[Result] = []
    write(json, to_json(results, facts))
    for scenario in SCENARIOS:
        if scenario.name in names:
            results.append(play(scenario, ours, options, SAY.print))
            out.print(table(results[-1], options.model.name), "")
            write(json, to_json(results, facts))


def write(path: Path | None, text: str) -> None:
    try:
        if path is not None:
            path.write_text(text)
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from error


def main() -> int:
    """Faults are one line; servers are stopped however this ends (but for SIGKILL)."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        code = app(result_action="return_value")
    except (BenchError, ReameError) as error:
        SAY.print(f"bench: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
