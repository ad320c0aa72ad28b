"""What an answer must be (`Constraint`), and what the step loop needs from whoever watches over it (`Matcher`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Kind = Literal["json_object", "json_schema", "regex", "choice", "grammar", "tools"]
OF_JSON: tuple[Kind, ...] = ("json_object", "json_schema")
"""Those whose answers are one JSON value, written compactly."""
MAX_SOURCE_CHARS = 256 << 10
"""Of a source; longer ones are not compiled."""


@frozen
class Constraint:
    """`source` is canonical: equal sources mean equal languages. JSON for json_schema, choice and
    tools, else as given."""

    kind: Kind
    source: str = ""


class Matcher(Protocol):
    """Follows one answer. Decode thread only. End-of-generation tokens stay outside: they are never consumed."""

    @property
    def is_over(self) -> bool:
        """Nothing may follow: the answer is complete."""
        ...

    def mask(self) -> NDArray[Any]:
        """One bool a token: whether it may come next; those that end a generation, when the answer may end here.
        Good until the next call."""
        ...

    def consume(self, token: int) -> None: ...

    def forced(self) -> tuple[int, ...]:
        """The tokens that must follow now, however they would be drawn; empty while there is a choice."""
        ...

    def guess(self) -> tuple[int, ...]:
        """Text that must follow, cut into tokens that are only likely: a draft. Does not repeat `forced`."""
        ...

    def legal_prefix(self, tokens: Sequence[int]) -> int:
        """How many of `tokens`, from the front, could be consumed now."""
        ...
