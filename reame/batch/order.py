"""A batch of the API as OpenAI tells of it, from its order to its end. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.batch.account import Account

Told = dict[str, Any]
_TIMES = (
    "in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at",
)  # fmt: skip
_AT = {time.removesuffix("_at"): time for time in _TIMES}


def ordered(
    name: str,
    *,
    model: str,
    file: str,
    endpoint: str,
    window: str,
    seconds: float,
    metadata: Mapping[str, str] | None,
    now: float,
) -> Told:
    """A new batch for `model`, that has `seconds` to be done in."""
    return {
        "id": name,
        "object": "batch",
        "endpoint": endpoint,
        "model": model,
        "errors": None,
        "input_file_id": file,
        "completion_window": window,
        "status": "validating",
        "output_file_id": None,
        "error_file_id": None,
        "created_at": int(now),
        "expires_at": int(now + seconds),
        **dict.fromkeys(_TIMES),
        "request_counts": {"total": 0, "completed": 0, "failed": 0},
        "metadata": None if metadata is None else dict(metadata),
    }


def moved(told: Told, status: str, now: float, **more: Any) -> Told:
    """The batch in its next state."""
    return told | {"status": status, _AT[status]: int(now)} | more


def failed(told: Told, code: str, message: str, now: float) -> Told:
    errors = {"object": "list", "data": [{"code": code, "message": message, "param": None, "line": None}]}
    return moved(told, "failed", now, errors=errors)


def counts(account: Account) -> dict[str, int]:
    """`request_counts`: also what was done before the daemon was restarted."""
    good, bad = account.good + account.before - account.failed_before, account.failed + account.failed_before
    return {"total": account.lines, "completed": good, "failed": bad}
