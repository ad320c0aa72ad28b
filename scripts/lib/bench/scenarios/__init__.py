"""All scenarios, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import (
    chance,
    crowd,
    decode,
    draft,
    exam,
    flock,
    gap,
    keystrokes,
    labels,
    lists,
    neighbour,
    nightly,
    prefill,
    prefix,
    quiz,
    quoting,
    repeat,
    replay,
    schema,
    storing,
    users,
)

if TYPE_CHECKING:
    from bench.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    decode.SCENARIO,
    prefill.SCENARIO,
    users.SCENARIO,
    crowd.SCENARIO,
    gap.SCENARIO,
    neighbour.SCENARIO,
    prefix.SCENARIO,
    flock.SCENARIO,
    storing.SCENARIO,
    repeat.SCENARIO,
    quoting.SCENARIO,
    lists.SCENARIO,
    schema.SCENARIO,
    labels.SCENARIO,
    chance.SCENARIO,
    keystrokes.SCENARIO,
    replay.SCENARIO,
    quiz.SCENARIO,
    exam.SCENARIO,
    draft.SCENARIO,
    nightly.SCENARIO,
)
