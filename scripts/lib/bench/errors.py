"""The one error of the harness."""

from __future__ import annotations


class BenchError(Exception):
    """A measurement cannot be made or must not be believed; the message is for people and says what to do."""
