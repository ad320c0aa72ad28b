"""What is wrong with a constraint, and where."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Path = tuple[str | int, ...]
"""Keys and indices from the root of a schema."""


class ConstraintFault(Exception):
    """`message` goes on after what is at fault: a keyword of the schema at `path`, or with keyword "" that schema, or
    where there is no schema the whole.
    """

    def __init__(self, message: str, path: Path = (), keyword: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.keyword = keyword


def shown(path: Sequence[str | int]) -> str:
    """As JSONPath has it: $.properties.age, $.anyOf[1], $.properties['first name']."""
    return "$" + "".join(_step(step) for step in path)


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    name = step if len(step) <= 60 else step[:57] + "..."
    return f".{name}" if re.fullmatch(r"[$\w-]+", name, re.ASCII) else f"[{name!r}]"
