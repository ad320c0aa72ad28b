"""Logs on standard error, one line an event: `2026-11-29T18:00:00Z INFO request id=... tokens=12`, or JSON."""

from __future__ import annotations

import logging
import sys


def configure(level: str, format: str) -> None:
    logging.basicConfig(stream=sys.stderr, level=level.upper(), format="%(asctime)s %(levelname)s %(message)s")


def event(logger: logging.Logger, name: str, **fields: object) -> None:
    """One line: the name and key=value pairs; fields that are None are left out."""
    logger.info("%s %s", name, " ".join(f"{k}={v}" for k, v in fields.items() if v is not None))
