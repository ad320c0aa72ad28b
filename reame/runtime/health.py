"""A glance at the daemon: for `/health`, `systemctl status` and the watchdog."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

Status = Literal["loading", "ready", "stalled", "draining"]


@frozen(kw_only=True)
class Health:
    """`oldest_wait_s` is how long the first in the queue has waited; `slots_background`: see
    `Intake.background_width`."""

    status: Status
    detail: str
    slots_total: int
    slots_busy: int
    slots_background: int
    queue_depth: int
    oldest_wait_s: float
