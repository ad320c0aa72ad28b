"""From the journal of a batch to its files: answers in one, errors in another, in the input's order. Synchronous."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.batch.result import read_result, refusal, result_line
from reame.errors import RequestError

if TYPE_CHECKING:
    from pathlib import Path

    from reame.batch.journal import Journal
    from reame.batch.plan import Plan
    from reame.batch.shelf import Shelf, Told


def expire(plan: Plan, journal: Journal) -> None:
    """What has no result gets one: it was not done in time."""
    outcome = refusal(RequestError("the batch was not done in time", status=408, code="batch_expired"))
    plan.take_in(journal)
    for group in plan.groups():
        journal.append(b"".join(result_line(each.id, each.custom_id, outcome) for each in group))


def hand_out(shelf: Shelf, key: str, told: Told, plan: Plan, journal: Journal) -> dict[str, str | None]:
    """Make the files that `told` names, over what an earlier try left; None in place of one that would be empty."""
    made: dict[str, str | None] = {}
    for name, wants_good in (("output_file_id", True), ("error_file_id", False)):
        data = shelf.data_path(key, told[name])
        made[name] = told[name] if _write_lines(data, plan, journal, wants_good=wants_good) else None
        if made[name] is None:
            data.unlink()
        else:
            kind = name.removesuffix("_file_id")
            shelf.add(data, filename=f"{told['id']}_{kind}.jsonl", purpose="batch_output")
    return made


def _write_lines(path: Path, plan: Plan, journal: Journal, *, wants_good: bool) -> int:
    """How many lines there are."""
    number = 0
    with path.open("wb") as file:
        for _, start, size in plan.in_order(journal):
            line = journal.read(start, size)
            result = read_result(line)
            if result is not None and result.is_good == wants_good:
                file.write(line)
                number += 1
    return number
