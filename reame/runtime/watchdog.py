"""Tells the service manager how things are: that the engine gets on with its work, and a line about it.

The watchdog is fed from the engine's progress and not because this task runs: a daemon whose HTTP side answers while
its engine hangs must be restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from reame.runtime.health import Health
    from reame.runtime.intake import Intake
    from reame.runtime.notify import Supervisor

TICK_S = 2.0
"""Seconds between two looks, if the watchdog does not want to hear more often."""
LOAD_S = 120.0
"""Seconds that each look gives a start that is under way: a large model on a slow disk takes its time, and the trial of
a model has a time limit of its own."""


async def watch(supervisor: Supervisor, intake: Intake) -> None:
    """Runs until it is cancelled; returns at once when nobody listens."""
    if not supervisor.listens:
        return
    pause = min(TICK_S, supervisor.watchdog_s / 3) if supervisor.watchdog_s else TICK_S
    while True:
        health = intake.health()
        supervisor.status(status_line(health))
        if health.status == "loading":
            supervisor.more_time(LOAD_S)
        if health.status != "stalled":
            supervisor.alive()
        await trio.sleep(pause)


def status_line(health: Health) -> str:
    """What `systemctl status` shows."""
    if health.status not in ("ready", "draining"):
        return health.detail
    busy = f"{health.slots_busy} of {health.slots_total} slots busy, {health.queue_depth} waiting"
    return f"{health.detail}: {busy}"
