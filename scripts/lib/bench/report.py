"""The table for people and the JSON for everything else. Pure."""

from __future__ import annotations

import json
from statistics import median
from typing import TYPE_CHECKING, Any

from attrs import asdict
from rich import box
from rich.table import Table

from bench.noise import QUIET_CORES
from bench.stats import Summary, compare, judge_ratio, judge_values

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.harness import Result
    from bench.scenario import Metric


def table(result: Result, model: str) -> Table:
    """One scenario. Only the ratio column compares; it refuses where the runs do not allow it."""
    scenario = result.scenario
    drawn = Table(
        title=f"{scenario.title}: {scenario.shows}\nFavours {scenario.favours}. Model: {model}",
        caption="\n".join(notes(result)),
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
    )
    for name in ("", "side"):
        drawn.add_column(name)
    for name in ("median (min - max)", f"{result.sides[0].label} is better by", "goal"):
        drawn.add_column(name, no_wrap=True)
    for metric in scenario.metrics:
        for row in rows(result, metric, model):
            drawn.add_row(*row)
        drawn.add_section()
    return drawn


def rows(result: Result, metric: Metric, model: str) -> list[tuple[str, str, str, str, str]]:
    """The rows of one metric: ours first, then each rival that measures it. None if it cannot be measured here."""
    ours = result.values(0, metric.name)
    if ours is None:
        return []
    goals = [goal for goal in metric.goals if goal.counts_for(model)]
    bound = "at most" if metric.better == "lower" else "at least"
    own = [
        f"{bound} {goal.bound:g} {metric.unit}: {judge_values(goal, ours, metric.better)}"
        for goal in goals
        if goal.of == "value"
    ]
    out = [(f"{metric.title}, {metric.unit}", result.sides[0].label, _summary(ours), "", "\n".join(own))]
    for side, rival in enumerate(result.sides):
        theirs = result.values(side, metric.name)
        if side == 0 or theirs is None:
            continue
        ratio = compare(ours, theirs, metric.better)
        against = [
            f">= {goal.bound:g}x: {judge_ratio(goal, ratio)}"
            for goal in goals
            if goal.of == "ratio" and ratio is not None and rival.kind != "llama-bench"
        ]
        out.append(("", rival.label, _summary(theirs), verdict(ours, theirs, metric), "\n".join(against)))
    return out


def verdict(ours: Sequence[float], theirs: Sequence[float], metric: Metric) -> str:
    """The ratio with the range of its pairs, or the range alone: a ratio within its own spread is not printed."""
    ratio = compare(ours, theirs, metric.better)
    if ratio is None:
        return "no ratio (a zero)"
    spread = f"({ratio.lowest:.2f} - {ratio.highest:.2f})"
    return f"{ratio.median:.2f}x {spread}" if ratio.is_verdict else f"no verdict {spread}"


def notes(result: Result) -> list[str]:
    """What to know before one believes the table: noise, and whether both sides did the same work."""
    noises = [run.noise for runs in result.runs for run in runs]
    noisy = sum(not noise.is_quiet for noise in noises)
    pressures = [noise.pressure for noise in noises if noise.pressure is not None]
    others = Summary.of([noise.others for noise in noises])
    lines = [
        f"Noise: others used {others.median:.2f} cores (at most {others.highest:.2f}), "
        f"steal {median(noise.steal for noise in noises):.2f}, "
        + (f"CPU pressure {median(pressures):.0%}, " if pressures else "")
        + f"this client {median(noise.client for noise in noises):.2f}. Rounds: {len(result.runs[0])}"
        + (f", and {result.discarded} discarded as noisier." if result.discarded else ".")
    ]
    if noisy:
        lines.append(f"NOT QUIET: beside {noisy} of {len(noises)} runs others used more than {QUIET_CORES} cores.")
    for side, runs in enumerate(result.runs):
        if side and runs[0].texts:
            pairs = list(zip(result.runs[0], runs, strict=True))
            texts = sum(mine.texts == other.texts for mine, other in pairs)
            counts = all(mine.prompt_tokens == other.prompt_tokens for mine, other in pairs)
            lines.append(
                f"Same text as {result.sides[side].label} in {texts} of {len(pairs)} rounds"
                + ("." if counts else "; DIFFERENT numbers of prompt tokens.")
            )
    return lines


def to_json(results: Sequence[Result], facts: Mapping[str, Any]) -> str:
    """Every run of every side, with what the table says of them; `facts` tells machine, model and versions."""
    return json.dumps({**facts, "scenarios": [_scenario(result) for result in results]}, indent=1) + "\n"


def _scenario(result: Result) -> dict[str, Any]:
    names = [metric.name for metric in result.scenario.metrics]
    return {
        "name": result.scenario.name,
        "titles": {metric.name: metric.title for metric in result.scenario.metrics},
        "units": {metric.name: metric.unit for metric in result.scenario.metrics},
        "better": {metric.name: metric.better for metric in result.scenario.metrics},
        "sides": [
            {
                **asdict(side),
                "values": {name: result.values(index, name) for name in names},
                "noise": [asdict(run.noise) for run in result.runs[index]],
                "prompt_tokens": [run.prompt_tokens for run in result.runs[index]],
                "curves": [run.curves for run in result.runs[index] if run.curves],
                "ratios": _ratios(result, index) if index else {},
            }
            for index, side in enumerate(result.sides)
        ],
        "discarded": result.discarded,
        "notes": notes(result),
    }


def _ratios(result: Result, side: int) -> dict[str, Any]:
    found = {}
    for metric in result.scenario.metrics:
        ours, theirs = result.values(0, metric.name), result.values(side, metric.name)
        if ours and theirs and (ratio := compare(ours, theirs, metric.better)):
            found[metric.name] = {**asdict(ratio), "verdict": ratio.is_verdict}
    return found


def _summary(values: Sequence[float]) -> str:
    summary = Summary.of(values)
    return f"{_number(summary.median)} ({_number(summary.lowest)} - {_number(summary.highest)})"


def _number(value: float) -> str:
    """Three significant digits, without an exponent."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
