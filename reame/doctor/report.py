"""A report for people (rich) and for programs (JSON)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import asdict
from rich.table import Table
from rich.text import Text

from reame.doctor.advice import Level
from reame.doctor.words import rate, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, RenderableType

    from reame.doctor.advice import Finding, Fit, Report

_MARKS = {Level.FAULT: "✗", Level.WARNING: "!", Level.NOTE: "·", Level.GOOD: "✓"}
_COLOURS = {Level.FAULT: "bold red", Level.WARNING: "yellow", Level.NOTE: "cyan", Level.GOOD: "green"}
_MOST_MODELS = 8
_SLOWEST = 4.0
"""Tokens a second, at best, below which a model is not proposed."""


def as_json(report: Report) -> dict[str, Any]:
    """Plain values: sets as sorted lists, thread and row counts as strings of digits."""
    machine = asdict(report.machine)
    for name in ("features", "compiled"):
        machine[name] = sorted(machine[name])
    return {
        "machine": {**machine, "usable_cpus": report.machine.share.usable, "stolen": report.machine.stolen},
        "measured": asdict(report.measured) if report.measured else None,
        "facts": [asdict(fact) for fact in report.facts],
        "findings": [asdict(finding) for finding in report.findings],
        "settings": [asdict(setting) for setting in report.settings],
        "models": [asdict(fit) for fit in report.fits],
    }


def show(report: Report, console: Console) -> None:
    for part in _parts(report):
        console.print(part, highlight=False)


def _parts(report: Report) -> Iterator[RenderableType]:
    yield _facts(report)
    yield ""
    for finding in report.findings:
        yield _finding(finding)
    if not report.findings:
        yield "Nothing is wrong with this machine."
    yield ""
    if report.settings:
        yield "What to set (reame doctor --write puts it into the file):"
        yield _settings(report)
    elif report.measured is not None and report.measured.model is not None:
        yield "The configuration is right for this machine as it is."
    fitting = [fit for fit in report.fits if fit.fits and (fit.most is None or fit.most >= _SLOWEST)]
    if fitting:
        yield ""
        speeds = ", with estimated speed for one user" if any(fit.most for fit in fitting) else ""
        yield f"The largest models of the catalogue for this machine{speeds}:"
        yield _models(sorted(fitting, key=lambda fit: -fit.ram)[:_MOST_MODELS])


def _grid() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    return table


def _facts(report: Report) -> Table:
    table = _grid()
    table.add_column(overflow="fold")
    for fact in report.facts:
        table.add_row(Text(fact.name, style="bold"), Text(fact.text + (" (estimate)" if fact.is_estimate else "")))
    return table


def _finding(finding: Finding) -> Table:
    table = _grid()
    table.add_column(overflow="fold")
    text = Text(finding.what)
    if finding.remedy:
        text.append(f"\n→ {finding.remedy}", style="italic")
    table.add_row(Text(_MARKS[finding.level], style=_COLOURS[finding.level]), text)
    return table


def _settings(report: Report) -> Table:
    table = _grid()
    table.add_column(overflow="fold")
    for setting in report.settings:
        value = str(setting.value).lower() if isinstance(setting.value, bool) else setting.value
        shown = f'"{value}"' if isinstance(setting.value, str) else value
        kind = "measured" if setting.is_measured else "worked out"
        table.add_row(Text(f"  {setting.key} = {shown}", style="bold"), Text(f"{setting.why} ({kind})"))
    return table


def _models(fits: list[Fit]) -> Table:
    table = _grid()
    table.add_column(justify="right", no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold")
    for fit in fits:
        table.add_row(Text(f"  {fit.name}", style="bold"), size(fit.ram), _speed(fit), Text(fit.advice, style="dim"))
    return table


def _speed(fit: Fit) -> str:
    if fit.least is None or fit.most is None:
        return ""
    low, high = rate(fit.least), rate(fit.most)
    return f"~{high}" if low == high else f"{low.removesuffix(' tok/s')} to {high}"
