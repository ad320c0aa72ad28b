"""What a file that cannot be read means to a systemd service, which sees only what its unit shows it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def is_service(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether this very process was started by systemd, not one above it."""
    return environ.get("SYSTEMD_EXEC_PID") == str(os.getpid())


def service_hint(advice: str, environ: Mapping[str, str] = os.environ) -> str:
    """For the end of a message about a file: who is refused, and the `advice` of what in the unit helps. Empty for a
    process that is no service."""
    return f" (this service runs as user id {os.geteuid()}: {advice})" if is_service(environ) else ""


def show_it(path: object) -> str:
    """Advice on a file that anybody may read."""
    return f"the file must be readable for it, and below /home its unit needs BindReadOnlyPaths={path}"
