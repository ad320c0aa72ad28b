"""Draws a benchmark's JSON with matplotlib: for phones (one thought a picture, large letters), light and dark."""

from __future__ import annotations

import importlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pip_call
from attrs import frozen
from console import Refusal

from bench.curves import Growth, Line, Mark, groups, lines, marks
from bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

LIBRARY = "matplotlib>=3.10"


@frozen(kw_only=True)
class Theme:
    """`colours` are told apart by people who see few (Okabe and Ito), ours first."""

    name: str
    paper: str
    ink: str
    faint: str
    colours: tuple[str, ...]


THEMES = (
    Theme(
        name="light",
        paper="#ffffff",
        ink="#1f2328",
        faint="#d0d7de",
        colours=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#6e7781"),
    ),
    Theme(
        name="dark",
        paper="#0d1117",
        ink="#e6edf3",
        faint="#30363d",
        colours=("#56b4e9", "#e69f00", "#2fbf8f", "#cc79a7", "#8b949e"),
    ),
)


@frozen(kw_only=True)
class Chart:
    """Lines of one scenario. `log`: axes whose steps are factors. `ticks`: where the x axis is marked."""

    scenario: str
    curve: str
    title: str
    x: str
    y: str
    log: str = ""
    ticks: tuple[int, ...] = ()
    percent: bool = False


HOURS = (0, 6, 12, 18, 24)

CHARTS = (
    Chart(
        scenario="replay",
        curve="avoided",
        title="The longer it runs, the cheaper it gets",
        x="hour of the day",
        ticks=HOURS,
        y="tokens so far that were\nnot computed, %",
        percent=True,
    ),
    Chart(
        scenario="replay",
        curve="cost",
        title="What a request has cost so far",
        x="hour of the day",
        ticks=HOURS,
        y="processor seconds\na request",
    ),
    Chart(
        scenario="crowd",
        curve="together",
        title="All users together",
        x="users at once",
        y="tokens a second",
        log="x",
    ),
    Chart(
        scenario="gap",
        curve="silences",
        title="A reader's waits beside a long prompt",
        x="waits, the longest first",
        y="seconds",
        log="xy",
    ),
    Chart(
        scenario="keystrokes",
        curve="keys",
        title="Typing code",
        x="key",
        y="first token, ms",
        log="y",
    ),
)


def obtain() -> Callable[[str, Path], list[Path]]:
    """What draws a JSON's text into a folder; fetches matplotlib first if it is not here. Raises BenchError."""
    try:
        importlib.import_module("matplotlib")
    except ImportError:
        _fetch()
    matplotlib = importlib.import_module("matplotlib")
    matplotlib.use("agg")
    return partial(draw, importlib.import_module("matplotlib.pyplot"))


def _fetch() -> None:
    try:
        with TemporaryDirectory(prefix="reame-bench-") as scratch:
            pip_call.call(
                Path(sys.executable),
                ["install", LIBRARY],
                log=Path(scratch) / "pip.log",
                doing="installing matplotlib, which draws",
                status=lambda _line: None,
                cwd=Path(scratch),
                environ=os.environ,
            )
    except Refusal as fault:
        raise BenchError(f"without matplotlib there are no plots: {fault}") from fault
    importlib.invalidate_caches()


def draw(pyplot: Any, text: str, folder: Path) -> list[Path]:
    """Every chart that the JSON has something for, twice in two formats; the files."""
    try:
        told = json.loads(text)
        told["scenarios"]
    except (ValueError, TypeError, KeyError) as error:
        raise BenchError("this is not what --json of this benchmark writes") from error
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for theme in THEMES:
            with pyplot.rc_context(_style(theme)):
                for chart in CHARTS:
                    if found := lines(told, chart.scenario, chart.curve):
                        figure = _chart(pyplot, chart, found, theme)
                        made += _save(pyplot, figure, folder, f"{chart.scenario}-{chart.curve}-{theme.name}")
                for name, growing in groups(told).items():
                    made += _save(pyplot, _growth(pyplot, growing, theme), folder, f"scale-{name}-{theme.name}")
                if ratios := marks(told):
                    made += _save(pyplot, _ratios(pyplot, ratios, theme, told), folder, f"ratios-{theme.name}")
    except OSError as error:
        raise BenchError(f"cannot draw into {folder}: {error.strerror}") from error
    return made


def _style(theme: Theme) -> dict[str, Any]:
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), theme.ink)
    paper = dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), theme.paper)
    return {
        **ink,
        **paper,
        "axes.edgecolor": theme.faint,
        "grid.color": theme.faint,
        "font.size": 14,
        "svg.fonttype": "path",
        "svg.hashsalt": "reame",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "legend.frameon": False,
    }


def _chart(pyplot: Any, chart: Chart, found: Sequence[Line], theme: Theme) -> Any:
    figure, axes = pyplot.subplots(figsize=(6.4, 4.8), layout="constrained")
    factor = 100 if chart.percent else 1
    for line, colour in zip(found, theme.colours, strict=False):
        middle, low, high = ([factor * y for y in ys] for ys in (line.middle, line.low, line.high))
        axes.plot(line.x, middle, color=colour, linewidth=2.5, label=line.label, marker="o" if len(line.x) < 9 else "")
        axes.fill_between(line.x, low, high, color=colour, alpha=0.2, linewidth=0)
    if "x" in chart.log:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
    if "y" in chart.log:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
    else:
        axes.set_ylim(bottom=0)
    if chart.ticks:
        axes.set_xticks(chart.ticks)
    axes.set(xlabel=chart.x, ylabel=chart.y)
    axes.set_title(chart.title, loc="left", fontweight="bold")
    figure.legend(loc="outside lower center")
    return figure


def _growth(pyplot: Any, growing: Sequence[Growth], theme: Theme) -> Any:
    """Costs by size, both axes in steps of factors: a straight line is a power, a level one costs nothing more."""
    figure, axes = pyplot.subplots(figsize=(6.4, 4.8), layout="constrained")
    for series, colour in zip(growing, theme.colours, strict=False):
        power = "" if series.slope is None else f", size^{series.slope:.2f}"
        label = f"{series.title}, {series.unit}{power}"
        axes.plot(series.x, series.y, color=colour, linewidth=2.5, marker="o", label=label)
    axes.set(xscale="log", yscale="log", xlabel=growing[0].size)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title("How costs grow", loc="left", fontweight="bold")
    axes.legend(fontsize=11)
    return figure


def _ratios(pyplot: Any, ratios: Sequence[Mark], theme: Theme, told: Mapping[str, Any]) -> Any:
    """Every ratio with the range of its rounds; hollow and faint where the range does not allow a verdict."""
    figure, axes = pyplot.subplots(figsize=(6.4, 1.6 + 0.42 * len(ratios)), layout="constrained")
    ahead, behind = theme.colours[:2]
    for place, mark in enumerate(reversed(ratios)):
        colour = (ahead if mark.middle > 1 else behind) if mark.is_verdict and mark.middle != 1 else theme.colours[4]
        axes.plot((mark.low, mark.high), (place, place), color=colour, linewidth=3, solid_capstyle="round")
        face = colour if mark.is_verdict else theme.paper
        axes.plot(mark.middle, place, "o", markersize=9, markeredgewidth=2, color=colour, markerfacecolor=face)
    axes.axvline(1, color=theme.ink, linewidth=1.5)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}x")
    axes.xaxis.set_minor_formatter("")
    axes.set_yticks(range(len(ratios)), [mark.title for mark in reversed(ratios)], fontsize=11)
    axes.grid(axis="y", visible=False)
    figure.suptitle(f"Reame beside {ratios[0].rival}\n{told['model']}", x=0.02, ha="left", fontsize=14, weight="bold")
    figure.supxlabel("left: worse    right: better    hollow: no verdict", fontsize=12)
    return figure


def _save(pyplot: Any, figure: Any, folder: Path, name: str) -> list[Path]:
    paths = [folder / f"{name}.{ending}" for ending in ("svg", "png")]
    for path in paths:
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)
    return paths
