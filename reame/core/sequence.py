"""One sequence on its way: the tokens it should have and the cells it has. Owner: the scheduler."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import Factory, define, field

from reame.core.draft import DraftCount
from reame.core.events import Timings, TokenLogprob, Usage
from reame.core.text import TextStream
from reame.core.tools import OPEN

if TYPE_CHECKING:
    from reame.core.blocks import Block
    from reame.core.draft import Draft
    from reame.core.request import Request
    from reame.core.slots import Slot


@define(eq=False)
class Sequence:
    """`tokens` is the prompt, then what was generated; the last one is not computed yet.

    `slot` is None while it waits (new, or preempted). `num_reserved` cells are promised to it: it may hold that many
    without asking. `draft` is a guess at what follows `tokens`; wrong guesses cost time, never change the text. The
    last `num_forced` tokens were not drawn, but forced by its constraint, and are still to be computed.
    """

    request: Request
    tokens: list[int]
    text: TextStream
    arrived: float
    slot: Slot | None = None
    num_reserved: int = 0
    draft: Draft | None = None
    num_forced: int = 0
    num_on_disk: int = 0
    """Tokens from the front that lay on the disk when it came."""
    loading: bool = False
    """It has a slot, and its blocks are being read; no row is computed before they are here."""
    halt: int | None = None
    """Its next rows go no further: there its state is to be kept (`core.checkpoints`)."""
    num_kept: int = 0
    """Tokens from the front at which its state was kept last, or that it began with."""
    restoring: tuple[Block, ...] = ()
    """Blocks still to be put into its cells, before any row."""
    num_restored: int = 0
    """Prompt tokens that came from the disk."""
    order: int = 0
    """Number of its admission: the youngest is preempted first."""
    num_cached: int = 0
    """Prompt tokens it found computed when it first got a slot, live or on the disk."""
    num_again: int = 0
    """Generated tokens that did nothing but spell what was taken back from the prompt."""
    untold_logprobs: tuple[TokenLogprob, ...] = ()
    """Of tokens whose text is held back: told with the text, never when it turns out to be a stop string."""
    begun: tuple[str, tuple[TokenLogprob, ...]] = ("", ())
    """What its answer is forced to begin with, until it is told."""
    preempted: bool = False
    """It was; what it finds computed after that is not counted as cached."""
    drafts: DraftCount = Factory(DraftCount)
    rated: tuple[TokenLogprob, ...] = ()
    """The prompt's tokens as far as their probabilities are known, when they are wanted."""
    traceless: bool = False
    """Its key was told to be forgotten while it ran: nothing of it is kept."""
    num_vain: int = 0
    """Plans in which it would have been let in if it wanted nothing from the disk."""
    has_line: bool = False
    """A line of the answer has ended."""
    done: bool = False
    admitted: float = field(default=0.0)
    first_token: float = field(default=0.0)

    @classmethod
    def new(cls, request: Request, now: float, num_on_disk: int = 0) -> Sequence:
        calls_tools = request.constraint is not None and request.constraint.kind == "tools"
        text = TextStream(request.stop, num_untold=len(request.healed), until=OPEN if calls_tools else "")
        return cls(request, list(request.prompt), text, now, num_on_disk=num_on_disk)

    @property
    def num_computed(self) -> int:
        return len(self.slot.tokens) if self.slot else 0

    @property
    def num_generated(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    @property
    def num_left(self) -> int:
        """Tokens that it may still generate, as far as is known: each that only spells again may be one more."""
        room = self.request.max_tokens + self.request.most_again - self.num_generated
        return min(room, self.request.max_tokens - self.num_generated + self.num_again)

    @property
    def num_missing(self) -> int:
        """Known tokens whose cells are not computed: 1 while decoding, more while catching up."""
        return len(self.tokens) - self.num_computed

    @property
    def decodes(self) -> bool:
        """It knows all that comes before its next draw, but for what was drawn or forced last."""
        return bool(self.request.max_tokens) and self.num_missing <= 1 + self.num_forced

    @property
    def num_wanted(self) -> int:
        """Rows it still wants of this prompt: all that is missing, but for a last token that nothing is drawn after."""
        return self.num_missing if self.request.max_tokens else self.num_missing - 1

    @property
    def num_next(self) -> int:
        """Rows that the next step may have of it."""
        return self.num_wanted if self.halt is None else min(self.num_wanted, self.halt - self.num_computed)

    @property
    def cells_wanted(self) -> int:
        """Cells it will hold when it has caught up."""
        return self.num_computed + self.num_wanted

    @property
    def num_reusable(self) -> int:
        """How long a prefix that is computed already it may start from. The last token is computed anew, for its
        logits, and so are all whose logits rate the next token of the prompt."""
        request = self.request
        if request.prompt_logprobs and len(self.rated) < len(request.prompt):
            return max(len(self.rated) - 1, 0)
        return len(self.tokens) - 1

    @property
    def waits_for_disk(self) -> bool:
        return self.loading or bool(self.restoring)

    @property
    def max_cells(self) -> int:
        """Cells it can ever hold: the last token that it may generate is never computed."""
        return len(self.request.prompt) + self.request.max_tokens + self.request.most_again - 1

    def take_logprobs(self) -> tuple[TokenLogprob, ...]:
        """The logprobs that may be told now: none while text is held back; what became a stop string is dropped."""
        if self.text.holding:
            return ()
        told, self.untold_logprobs = self.untold_logprobs, ()
        return () if self.text.stopped else told

    def usage(self) -> Usage:
        return Usage(
            prompt_tokens=len(self.request.prompt),
            cached_tokens=min(self.num_cached, len(self.request.prompt)),
            disk_tokens=self.num_restored,
            completion_tokens=self.num_generated,
        )

    def timings(self, now: float, *, saved: float) -> Timings:
        """`saved`: seconds that the cached tokens would have cost."""
        admitted = self.admitted or now
        first = self.first_token or now
        return Timings(
            queued_ms=1e3 * (admitted - self.arrived),
            prefill_ms=1e3 * (first - admitted),
            decode_ms=1e3 * (now - first),
            saved_ms=1e3 * saved,
        )
