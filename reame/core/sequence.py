"""One sequence on its way: the tokens it should have and the cells it has. Owner: the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import define, field

from reame.core.events import Timings, TokenLogprob, Usage
from reame.core.text import TextStream

if TYPE_CHECKING:
    from reame.core.blocks import Block
    from reame.core.request import Request
    from reame.core.slots import Slot


@define(eq=False)
class Sequence:
    """`tokens` is the prompt, then what was generated; the last one is not computed yet.

    `slot` is None while it waits (new, or preempted). `num_reserved` cells are promised to it: it may hold that many
    without asking. `draft` is a guess at what follows `tokens`; wrong guesses cost time, never change the text.
    """

    request: Request
    tokens: list[int]
    text: TextStream
    arrived: float
    slot: Slot | None = None
    num_reserved: int = 0
    draft: tuple[int, ...] = ()
    blocks: tuple[Block, ...] = ()
    """What the disk has of `tokens`: consecutive blocks, not always from the first. Until it gets a slot."""
    restoring: tuple[Block, ...] = ()
    """Blocks still to be put into its cells; no row is computed before that."""
    num_restored: int = 0
    """Prompt tokens that came from the disk."""
    order: int = 0
    """Number of its admission: the youngest is preempted first."""
    num_cached: int | None = None
    """Prompt tokens it found computed when it first got a slot; None before that."""
    untold_logprobs: tuple[TokenLogprob, ...] = ()
    """Of tokens whose text is held back: told with the text, never when it turns out to be a stop string."""
    done: bool = False
    admitted: float = field(default=0.0)
    first_token: float = field(default=0.0)

    @classmethod
    def new(cls, request: Request, now: float, blocks: tuple[Block, ...] = ()) -> Sequence:
        return cls(request, list(request.prompt), TextStream(request.stop), now, blocks=blocks)

    @property
    def num_computed(self) -> int:
        return len(self.slot.tokens) if self.slot else 0

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def num_missing(self) -> int:
        """Known tokens whose cells are not computed: 1 while decoding, more while catching up."""
        return len(self.tokens) - self.num_computed

    @property
    def max_cells(self) -> int:
        """Cells it can ever hold: the last token that it may generate is never computed."""
        return len(self.request.prompt) + self.request.max_tokens - 1

    def take_logprobs(self) -> tuple[TokenLogprob, ...]:
        """The logprobs that may be told now: none while text is held back; what became a stop string is dropped."""
        if self.text.holding:
            return ()
        told, self.untold_logprobs = self.untold_logprobs, ()
        return () if self.text.stopped else told

    def blocks_behind(self, length: int) -> tuple[Block, ...]:
        """Its blocks that reach beyond `length` computed tokens, if the first of them leaves no gap. The last token
        is never taken from a block: it is computed, for its logits."""
        blocks = tuple(b for b in self.blocks if length < b.stop < len(self.tokens))
        return blocks if blocks and blocks[0].start <= length else ()

    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=len(self.request.prompt),
            cached_tokens=self.num_cached or 0,
            disk_tokens=self.num_restored,
            completion_tokens=self.num_generated,
        )

    def timings(self, now: float) -> Timings:
        admitted = self.admitted or now
        first = self.first_token or now
        return Timings(
            queued_ms=1e3 * (admitted - self.arrived),
            prefill_ms=1e3 * (first - admitted),
            decode_ms=1e3 * (now - first),
        )
