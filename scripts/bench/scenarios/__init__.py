"""All scenarios, in the order in which they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.scenarios import decode, gap, neighbour, prefill, quiz, users

if TYPE_CHECKING:
    from bench.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = (
    decode.SCENARIO,
    prefill.SCENARIO,
    users.SCENARIO,
    gap.SCENARIO,
    neighbour.SCENARIO,
    quiz.SCENARIO,
)
