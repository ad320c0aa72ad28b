"""The command line of the benchmark."""

from __future__ import annotations

import math
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from attrs import evolve
from cyclopts import App, Parameter, validators
from rich.console import Console

from bench import energy, machine, peers, plot_command, plots, scale_command
from bench.errors import BenchError
from bench.files import model_file, write
from bench.harness import Options, Result, play
from bench.markdown import markdown as as_markdown
from bench.remote import reach
from bench.report import table, to_json
from bench.scenario import FULL, QUICK
from bench.scenarios import SCENARIOS
from bench.sides import LLAMA_SERVER
from reame.errors import ReameError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.scenario import Scenario

ROOT = Path(__file__).resolve().parents[3]
WIDTH = 118
HOUR = 60.0
AT_LEAST_ONE = Parameter(validator=validators.Number(gte=1))
SAY = Console(stderr=True, highlight=False, soft_wrap=True)

app = App(
    name="./scripts/bench",
    help="Reame beside llama-server and llama-bench of the same llama.cpp build. docs/benchmarks.md explains.",
    version_flags=[],
)


@app.default
def bench(
    *,
    scenario: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    model: str = "smollm2-135m",
    rounds: Annotated[int | None, AT_LEAST_ONE] = None,
    minutes: Annotated[float | None, AT_LEAST_ONE] = None,
    quick: Annotated[bool, Parameter(negative="")] = False,
    records: Annotated[int | None, AT_LEAST_ONE] = None,
    draft: str = "qwen2.5-coder-0.5b",
    threads: Annotated[int | None, AT_LEAST_ONE] = None,
    seed: int | None = None,
    quiet_wait: float = 10.0,
    peer: str = "llama-server",
    peer_model: str = "",
    peer_bin: Path | None = None,
    json: Path | None = None,
    markdown: Path | None = None,
    plot: Path | None = None,
    same: Annotated[bool, Parameter(negative="")] = False,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
) -> int:
    """Play the scenarios and print a table for each.

    Parameters
    ----------
    scenario
        Only this one; may be given several times. By default all that do not take long (see --list).
    model
        A name that `reame list` shows, or the path of a .gguf file.
    rounds
        Runs of each side; 7 by default if there is time, 3 with --quick.
    minutes
        About so long altogether: when a scenario's share is over it plays no more rounds, but three at least. An hour
        by default; no limit where --rounds is given, nor with --quick.
    quick
        Shorter prompts and answers, three rounds: minutes, and wider spreads.
    records
        Of the scenario `nightly`: 1,000 by default, 48 with --quick.
    draft
        The draft model of the scenario `draft`: a name that `reame list` shows, or a path.
    threads
        Threads of every engine; all cores of this process by default.
    seed
        Of the prompts; drawn and printed by default, so that no run can be tuned for.
    quiet_wait
        Wait so many seconds at most before each run until others use less than 0.1 cores.
    peer
        What stands beside Reame: llama-server, or the URL of any server that speaks OpenAI's API and runs already.
        A key is taken from OPENAI_API_KEY.
    peer_model
        What the server at the URL calls the model; by default the first one that it lists.
    peer_bin
        Directory with llama-server and llama-bench; by default they are built, once.
    json
        Write every run and every ratio to this file.
    markdown
        Write all tables as one of Markdown to this file.
    plot
        Draw what can be drawn into this directory, as SVG and PNG, for light and dark pages.
    same
        Check the harness: llama-server takes Reame's place, so no ratio may come out.
    list_
        Name the scenarios and end.
    """
    if list_:
        for known in SCENARIOS:
            when = "" if known.by_default else " Only when it is named."
            print(f"{known.name:10} {known.title}: {known.shows}. Favours {known.favours}.{when}")
        return 0
    known_names = [known.name for known in SCENARIOS]
    if unknown := [name for name in scenario if name not in known_names]:
        raise BenchError(f"no scenario is called {', '.join(unknown)}: there are {', '.join(known_names)}")
    scale = QUICK if quick else FULL
    remote = None if peer == LLAMA_SERVER.label else reach(peer, model=peer_model)
    if remote is not None and (same or peer_bin):
        raise BenchError("--same and --peer-bin are for llama-server, not for a URL")
    options = Options(
        model=model_file(model),
        binaries=Path() if remote else (peer_bin or peers.obtain()).absolute(),
        peer=remote,
        threads=threads or len(os.sched_getaffinity(0)),
        rounds=rounds or (3 if quick else 7),
        rounds_asked=rounds is not None,
        minutes=minutes or (math.inf if quick or rounds else HOUR),
        seed=seed or random.SystemRandom().randrange(1, 1 << 31),
        draft=draft,
        scale=scale if records is None else evolve(scale, records=records),
        quiet_wait_s=quiet_wait,
    )
    by_default = tuple(known.name for known in SCENARIOS if known.by_default)
    chosen = [known for known in SCENARIOS if known.name in (scenario or by_default)]
    return run(options, chosen, quick=quick, same=same, json=json, markdown=markdown, plot=plot)


app.command(scale_command.scale)
app.command(plot_command.plot)


def run(
    options: Options,
    chosen: Sequence[Scenario],
    *,
    quick: bool,
    same: bool,
    json: Path | None,
    markdown: Path | None,
    plot: Path | None,
) -> int:
    """Play, print and write; 1 if a scenario could not be measured. JSON and Markdown are written after every scenario,
    so that a stopped benchmark keeps the others."""
    started, failed = time.monotonic(), False
    ends = started + 60 * options.minutes
    draw = plots.obtain() if plot else None
    facts = {
        **machine.facts(ROOT),
        "peer": options.peer.address.url if options.peer else machine.llama_server_version(options.binaries),
        "energy": energy.in_words(),
        "model": options.model.name,
        "threads": options.threads,
        "seed": options.seed,
        "rounds": options.rounds,
        "quick": quick,
    }
    SAY.print(", ".join(f"{name} {value}" for name, value in facts.items()))
    ours = evolve(LLAMA_SERVER, label="llama-server (A)") if same else None
    out = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    results: list[Result] = []
    write(json, to_json(results, facts))
    write(markdown, "")
    for place, scenario in enumerate(chosen):
        if scenario.models not in options.model.name.lower():
            SAY.print(f"{scenario.name}: left out, it needs a model whose name has {scenario.models!r} in it")
            continue
        part = scenario.weight / sum(each.weight for each in chosen[place:])
        share = part * (ends - time.monotonic())
        try:
            results.append(play(scenario, ours or scenario.ours, options, SAY.print, seconds=share))
        except BenchError as error:
            SAY.print(f"bench: {scenario.name} could not be measured: {error}")
            failed = True
            continue
        out.print(table(results[-1], options.model.name), "")
        write(json, to_json(results, facts))
        write(markdown, as_markdown(results, options.model.name))
    if plot and draw:
        draw(to_json(results, facts), plot)
    SAY.print(f"done in {(time.monotonic() - started) / 60:.0f} minutes")
    return int(failed)


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
