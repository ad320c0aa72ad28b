"""All scenarios, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import (
    chance,
    decode,
    flock,
    gap,
    lists,
    neighbour,
    nightly,
    prefill,
    prefix,
    quiz,
    quoting,
    repeat,
    storing,
    users,
)

if TYPE_CHECKING:
    from bench.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    decode.SCENARIO,
    prefill.SCENARIO,
    users.SCENARIO,
    gap.SCENARIO,
    neighbour.SCENARIO,
    prefix.SCENARIO,
    flock.SCENARIO,
    storing.SCENARIO,
    repeat.SCENARIO,
    quoting.SCENARIO,
    lists.SCENARIO,
    chance.SCENARIO,
    quiz.SCENARIO,
    nightly.SCENARIO,
)
