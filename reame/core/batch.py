"""What goes from plan to run (`Batch`) and from run to commit (`StepResult`). Values; nobody changes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence as Seq

    from reame.core.blocks import Block
    from reame.core.compaction import Segment
    from reame.core.draft import Draft
    from reame.core.events import TokenLogprob
    from reame.core.sequence import Sequence
    from reame.errors import EngineError, RequestError


@frozen
class Copy:
    """Share the first `length` cells of sequence id `src` with the empty `dst`."""

    src: int
    dst: int
    length: int


@frozen
class Trim:
    """Let go of the cells of sequence id `seq` at positions >= `length`."""

    seq: int
    length: int


@frozen
class Compact:
    """Drop the garbage and move `pieces`, in order, each into the lowest holes there are then."""

    pieces: tuple[Segment, ...]


@frozen
class Save:
    """Read the cells of `seq` from position `start` on, in blocks of `block_tokens`, for the disk.

    `tokens` are all from position 0 to the end of the last block: a block's name depends on what precedes it. A state
    that cannot be cut is read as one block of all of them.
    """

    seq: int
    namespace: str
    tokens: tuple[int, ...]
    start: int
    block_tokens: int


@frozen
class Load:
    """Somebody has to read the blocks of positions `start`..`stop`-1 from the disk, and call `Scheduler.loaded`."""

    sequence: Sequence
    start: int
    stop: int


@frozen
class Restore:
    """Put a block from the disk behind what the sequence holds. Runs after the operations, before the decode."""

    sequence: Sequence
    seq: int
    block: Block


@frozen
class Forget:
    """The request with this id ended: its sampler is of no more use."""

    request_id: str


Operation = Copy | Trim | Compact | Save | Forget


@frozen
class Slice:
    """Rows of one sequence, on loan to run: its tokens from `start` on, then its draft.

    `draft` are guesses, and the last rows. `samples`: the rows reach the last known token, so the next one is to be
    drawn (and the draft verified); otherwise this is a prefill chunk and has no draft.
    """

    sequence: Sequence
    seq: int
    start: int
    tokens: tuple[int, ...]
    draft: Draft | None
    samples: bool

    @property
    def rated(self) -> range:
        """Those of its rows whose logits rate the prompt's next token, when these are wanted."""
        request, known = self.sequence.request, len(self.sequence.rated)
        if not request.prompt_logprobs:
            return range(0)
        first = max(known - 1 - self.start, 0)
        return range(first, max(first, min(len(self.tokens), len(request.prompt) - 1 - self.start)))

    @property
    def num_drafted(self) -> int:
        return len(self.draft.tokens) if self.draft else 0


@frozen
class Batch:
    """One step: the operations in order, the restores, then one decode of all rows, at most the engine's `max_rows`."""

    operations: tuple[Operation, ...]
    slices: tuple[Slice, ...]
    restores: tuple[Restore, ...] = ()

    @property
    def num_rows(self) -> int:
        return sum(len(piece.tokens) for piece in self.slices)


@frozen
class Output:
    """What was drawn for one slice: the accepted draft tokens, one more, and what a constraint forces to follow; or
    nothing in a prefill chunk.

    The cells of the first `num_accepted` tokens are computed. It ends early at a token that ends a generation.
    `is_over`: the constraint lets nothing follow. `draft` is a proposal for the next step.
    `rated` are tokens of the prompt with their probabilities, when these are wanted. With `error` nothing was drawn, as
    the request's constraint cannot be held to any longer: it ends, and nobody else.
    """

    tokens: tuple[int, ...] = ()
    logprobs: tuple[TokenLogprob, ...] = ()
    num_accepted: int = 0
    is_over: bool = False
    draft: Draft | None = None
    rated: tuple[TokenLogprob, ...] = ()
    error: RequestError | None = None


@frozen
class Saved:
    """The state of each block of a `Save`, in the engine's own format, and the seconds it took to read."""

    save: Save
    payloads: tuple[bytes, ...]
    seconds: float


@frozen(kw_only=True)
class StepResult:
    """`outputs` parallel the batch's slices and are empty when the decode failed; `seconds` is what it took.

    `num_restored`: how many of the batch's restores went well, from the first on, in `restore_seconds`. What follows a
    failure was not tried, and no row was computed: which cells it wrote is not known, so the scheduler compacts first.
    """

    outputs: Seq[Output] = ()
    seconds: float = 0.0
    error: EngineError | None = None
    saved: Seq[Saved] = ()
    num_restored: int = 0
    restore_seconds: float = 0.0
