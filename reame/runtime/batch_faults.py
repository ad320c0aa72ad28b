"""What became of a batch that cannot go on: which fault decides, and what a client may be told of it."""

from __future__ import annotations

import logging
import sqlite3

from reame.errors import ReameError, RequestError

BATCH_FAILED = "batch_failed"
OF_DISK = OSError, sqlite3.Error

log = logging.getLogger(__name__)


def for_clients(error: BaseException, name: str) -> RequestError:
    """What is told of `error`; what is meant for who runs the server, and may name its paths, goes to the log."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, ReameError):
        log.error("batch %s failed: %s", name, error)
        return RequestError("the server cannot go on with this batch; its log says why", code=BATCH_FAILED)
    log.error("batch %s failed", name, exc_info=error)
    return RequestError("the server failed; see its log", status=500, code="internal_error")


def decisive(errors: BaseExceptionGroup) -> BaseException:
    """One of them: of the disk, if there is one, since that passes."""
    of_disk, _ = errors.split(OF_DISK)
    return _first(of_disk or errors)


def _first(errors: BaseExceptionGroup) -> BaseException:
    inner = errors.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner
