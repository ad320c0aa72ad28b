"""Plays a scenario: every side in turn, round by round (A B A B), each run on a rested machine and under the meter."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import Factory, frozen

from bench import llama_bench
from bench.client import Part
from bench.files import model_file
from bench.noise import Meter, Noise, wait_for_quiet
from bench.prompts import Prompts
from bench.scenario import Run, Scale, Scenario, completion
from bench.sides import LLAMA_BENCH, Server, Setup, Side, start

if TYPE_CHECKING:
    from bench.remote import Remote

MOST_TRIES = 2
"""A scenario plays at most so many times the rounds asked for, in order to have as many quiet ones."""

FEWEST_ROUNDS = 3
"""A scenario has so many whatever its time: no ratio is printed of fewer."""

WARM_UP = -1
"""Number of the round that is not counted: first touches of pages, first sizes of buffers."""


@frozen(kw_only=True)
class Options:
    """How a whole benchmark is made. `quiet_wait_s`: how long to wait at most for a quiet machine before a run.
    `rounds_asked`: somebody wants just so many, also where one takes long. `draft`: the draft model, a name or a path,
    looked for when a scenario needs it. `binaries`: not looked at with a `peer`."""

    model: Path
    binaries: Path
    threads: int
    rounds: int
    rounds_asked: bool
    seed: int
    draft: str
    scale: Scale
    quiet_wait_s: float
    minutes: float = math.inf
    """For all scenarios together."""
    peer: Remote | None = None
    """A server that runs already and takes llama-server's place."""


@frozen(kw_only=True)
class Outcome:
    """What one run of one side gave. `texts` and `prompt_tokens` are empty where a side does not tell."""

    values: dict[str, float]
    noise: Noise
    texts: tuple[str, ...] = ()
    prompt_tokens: tuple[int, ...] = ()
    curves: dict[str, list[tuple[float, float]]] = Factory(dict)


@frozen(kw_only=True)
class Result:
    """All runs of a scenario: `runs[i][r]` is round r of `sides[i]`; ours is the first side.

    `discarded`: rounds that were played and left out for their noise, whatever they measured.
    """

    scenario: Scenario
    sides: tuple[Side, ...]
    runs: tuple[tuple[Outcome, ...], ...]
    discarded: int = 0

    def values(self, side: int, metric: str) -> list[float] | None:
        """The metric's values by round; None when this side does not measure it."""
        runs = self.runs[side]
        return [run.values[metric] for run in runs] if all(metric in run.values for run in runs) else None


Round = list[Outcome]
"""One run of every side, in the order of the sides."""

Tell = Callable[[str], None]
"""Says one line of progress."""

Runner = Callable[[int], Outcome]
"""Measures one side in the round of that number."""


def play(scenario: Scenario, ours: Side, options: Options, tell: Tell, *, seconds: float = math.inf) -> Result:
    """Start the servers of all sides, run the rounds for about `seconds`, stop them. Raises BenchError."""
    setup = Setup(
        model=options.model,
        threads=options.threads,
        users=scenario.users,
        context=scenario.context,
        cells=scenario.cells,
        draft=model_file(options.draft) if scenario.drafts else None,
    )
    tests = () if options.peer else scenario.tests(options.scale)
    sides = (ours, *rivals(scenario, options.peer), *((LLAMA_BENCH,) if tests else ()))
    with ExitStack() as stack:
        runners: list[Runner] = []
        for side in sides:
            if side.kind == "llama-bench":
                runners.append(partial(_run_llama_bench, options.binaries, setup, tests))
                continue
            server = options.peer if side.kind == "url" else _started(side, setup, scenario, options, tell, stack)
            assert server is not None
            warm_up(server, scenario, options)
            runners.append(partial(_run_server, server, scenario, options))
        rounds = options.rounds if options.rounds_asked else min(options.rounds, scenario.most_rounds)
        tries = MOST_TRIES * rounds if options.quiet_wait_s else rounds
        one = partial(_round, scenario=scenario, sides=sides, runners=runners, options=options, tell=tell)
        played = rounds_of(one, rounds=rounds, tries=tries, seconds=seconds)
    kept = quietest(played, rounds)
    return Result(
        scenario=scenario,
        sides=sides,
        runs=tuple(zip(*kept, strict=True)),
        discarded=len(played) - len(kept),
    )


def rivals(scenario: Scenario, peer: Remote | None) -> tuple[Side, ...]:
    """Those of the scenario; a peer takes the place of all llama-servers, unless it would have to be restarted."""
    others = tuple(side for side in scenario.rivals if side.kind != "llama-server")
    if peer is None or others == scenario.rivals:
        return scenario.rivals
    return others if scenario.restarts else (*others, peer.side)


def _started(
    side: Side, setup: Setup, scenario: Scenario, options: Options, tell: Tell, stack: ExitStack
) -> Server:
    """A server of its own, stopped with the stack."""
    tell(f"{scenario.name}: starting {side.label}")
    scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reame-bench-")))
    server = start(side, setup, binaries=options.binaries, scratch=scratch)
    stack.callback(server.stop)
    return server


def rounds_of(
    one: Callable[[int], Round],
    *,
    rounds: int,
    tries: int,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Round]:
    """Rounds until `rounds` of them were quiet, `tries` at most. Behind `FEWEST_ROUNDS` none begins that would end
    later than `seconds` from now if it took as long as the longest one before."""
    ends, longest = clock() + seconds, 0.0
    played: list[Round] = []
    while sum(map(is_quiet, played)) < rounds and len(played) < tries:
        begun = clock()
        if len(played) >= FEWEST_ROUNDS and begun + longest > ends:
            break
        played.append(one(len(played)))
        longest = max(longest, clock() - begun)
    return played


def is_quiet(played: Round) -> bool:
    """Whether every run of the round was."""
    return all(outcome.noise.is_quiet for outcome in played)


def quietest(played: Sequence[Round], count: int) -> list[Round]:
    """The `count` rounds whose noisiest run was the least noisy, in the order of play. Blind to what they measured."""
    by_noise = sorted(range(len(played)), key=lambda place: max(run.noise.taken for run in played[place]))
    return [played[place] for place in sorted(by_noise[:count])]


def _round(
    round_: int,
    scenario: Scenario,
    sides: Sequence[Side],
    runners: Sequence[Runner],
    options: Options,
    tell: Tell,
) -> Round:
    outcomes = []
    for side, run in zip(sides, runners, strict=True):
        if options.quiet_wait_s:
            wait_for_quiet(options.quiet_wait_s)
        outcome = run(round_)
        values = ", ".join(f"{name} {value:.4g}" for name, value in outcome.values.items())
        noisy = "" if outcome.noise.is_quiet else f"  (noisy: others used {outcome.noise.taken:.2f} cores)"
        tell(f"{scenario.name} {round_ + 1} {side.label}: {values}{noisy}")
        outcomes.append(outcome)
    return outcomes


def warm_up(server: Server | Remote, scenario: Scenario, options: Options) -> None:
    prompts = Prompts(options.seed, scenario.name, WARM_UP)
    server.resume()
    Run(server, prompts, options.scale).ask(Part(body=completion(prompts.text(64), 8)))
    server.settle()
    server.rest()


def _run_server(server: Server | Remote, scenario: Scenario, options: Options, round_: int) -> Outcome:
    run = Run(server, Prompts(options.seed, scenario.name, round_), options.scale)
    server.resume()
    meter = Meter.now()
    try:
        values = scenario.measure(run)
        noise = meter.noise()
        server.settle()
    finally:
        server.rest()
    return Outcome(
        values=values,
        noise=noise,
        texts=tuple(run.texts),
        prompt_tokens=tuple(run.prompt_tokens),
        curves=run.curves,
    )


def _run_llama_bench(binaries: Path, setup: Setup, tests: Sequence[llama_bench.Test], _round: int) -> Outcome:
    meter = Meter.now()
    values = llama_bench.run(binaries, setup, tests)
    return Outcome(values=values, noise=meter.noise())
