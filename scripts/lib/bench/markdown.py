"""The same tables as one of Markdown, for documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report import rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.harness import Result

HEAD = ("scenario", "what", "ours", "others: ours is better by", "goal")


def markdown(results: Iterable[Result], model: str) -> str:
    """A line for each metric: ours, then all rivals with their verdicts, then the goals with theirs."""
    lines = [HEAD, ("---",) * len(HEAD)]
    for result in results:
        for metric in result.scenario.metrics:
            if found := rows(result, metric, model):
                lines.append((f"`{result.scenario.name}`", *_line(found)))
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def _line(found: Sequence[tuple[str, str, str, str, str]]) -> tuple[str, str, str, str]:
    (what, _, ours, _, own), *others = found
    theirs = "; ".join(f"{label} {summary}: {verdict}" for _, label, summary, verdict, _ in others)
    return what, ours, theirs, ", ".join([*filter(None, own.split("\n")), *_goals(others)])


def _goals(others: Sequence[tuple[str, str, str, str, str]]) -> Iterator[str]:
    """Where there are several rivals, each goal is said with the rival it is about."""
    for _, label, _, _, goals in others:
        for goal in filter(None, goals.split("\n")):
            yield goal if sum(bool(other[4]) for other in others) == 1 else f"{label}: {goal}"
