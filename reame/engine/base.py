"""The seam to the model: what the step loop needs from an engine, and nothing more.

Two implementations: `engine.llama` (llama.cpp) and `engine.fake` (models the KV cells; for tests). One class of
contract tests in `tests/test_engine_contract.py` runs on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reame.core.compaction import Segment
    from reame.core.fim import FimTokens
    from reame.core.request import Sampling


@frozen(kw_only=True)
class ModelInfo:
    """What is known of a loaded model. Token ids are `0 <= id < vocab_size`."""

    name: str
    """The general.name of the file, for people."""
    vocab_size: int
    context_trained: int
    """Tokens the model was trained for."""
    eog_tokens: frozenset[int]
    """Tokens that end a generation: end of text, end of turn."""
    bos_token: int | None
    adds_bos: bool
    """Whether the model wants its BOS in front of every text."""
    bos_text: str = ""
    eos_text: str = ""
    chat_template: str | None = None
    """Jinja source from the file, None when it has none."""
    size_bytes: int = 0
    sliding_window: int = 0
    """Tokens that its windowed layers see; 0: every layer sees all."""
    whole_state: bool = False
    """A sequence has a state that cannot be taken back: it is copied, saved and restored at its end only, and let go of
    as a whole. Beside it there may be cells (a hybrid) or none (a recurrent model)."""
    fim: FimTokens | None = None
    """Its marks for filling in the middle, None when it has none."""
    description: str = ""
    """Architecture, size and quantisation in llama.cpp's words."""


class Vocabulary(Protocol):
    """Text to tokens and back. Read-only, so any thread may call it; pure once the model is loaded."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """`add_special`: put BOS where the model wants one. `parse_special`: `<|im_end|>` and such become one token."""
        ...

    def piece(self, token: int) -> bytes:
        """The bytes that a token stands for in a text; control tokens give b""."""
        ...

    def spelled(self, token: int) -> bytes:
        """The same, with control tokens as they are written in a prompt, such as `<|im_end|>`."""
        ...


@frozen(slots=True)
class Row:
    """One token of one sequence in a step's batch. `sampled`: its logits are wanted."""

    token: int
    position: int
    seq: int
    sampled: bool


class Sampler(Protocol):
    """The state of one sequence's drawing: random numbers and penalties. Lives until `Engine.free_sampler`."""


class Engine(Protocol):
    """A model with one context of `num_cells` KV cells shared by `num_seqs` sequences. Called by one thread only.

    Cells: a row written by `decode` takes the cell behind the last one written; `copy` only tags cells with a second
    sequence and takes none; a cell that no sequence holds is garbage until `compact`. Positions of a sequence are
    always 0..n-1 without holes, and its cells lie in the order of its positions: attention sums in the cells' order.
    """

    @property
    def info(self) -> ModelInfo: ...

    @property
    def vocabulary(self) -> Vocabulary: ...

    num_cells: int
    num_seqs: int
    max_rows: int
    """Rows of one `decode` at most."""

    def copy(self, src: int, dst: int, length: int) -> None:
        """Share the cells of `src` at positions 0..length-1 with `dst`, which must be empty. With `whole_state` these
        are all that `src` holds."""
        ...

    def trim(self, seq: int, length: int) -> None:
        """Let go of the cells of `seq` at positions >= `length`. With `whole_state`: of all it holds, or nothing."""
        ...

    def compact(self, pieces: Sequence[Segment]) -> None:
        """Free the garbage; then move each piece, in order, into the lowest free cells."""
        ...

    def save(self, seq: int, start: int, stop: int) -> bytes:
        """The state of the cells of `seq` at positions start..stop-1, in a format of the engine's own. With
        `whole_state` these are all that it holds."""
        ...

    def restore(self, seq: int, start: int, stop: int, data: bytes) -> None:
        """Write what `save` gave behind the `start` positions that `seq` holds: then it holds `stop`, bit for bit.

        Raises EngineError for data that is not what it should be; then the cells from `start` on hold anything, and
        how many were written is not known.
        """
        ...

    def length(self, seq: int) -> int:
        """Number of positions that `seq` holds (for audits and tests)."""
        ...

    def decode(self, rows: Sequence[Row]) -> None:
        """Compute `rows` in one batch. Rows of a sequence come in order and continue its cells. Their cells are written
        in that order; with `whole_state` in that of `core.checkpoints.in_equal_parts`.

        Raises EngineError; the sequences of the batch then hold anything and must be trimmed to 0.
        """
        ...

    def new_sampler(self, sampling: Sampling, prompt: Sequence[int]) -> Sampler:
        """A sampler at its start; the prompt counts for `repeat_penalty` only."""
        ...

    def free_sampler(self, sampler: Sampler) -> None: ...

    def sample(self, row: int, sampler: Sampler) -> int:
        """Draw the token after row `row` (index into the last `decode`, `sampled` set) and let the sampler know it. One
        that is plain greedy keeps nothing, and may be asked about a row again."""
        ...

    def accept(self, sampler: Sampler, token: int) -> None:
        """Let the sampler know a token that was not drawn: penalties count it, no random number is used."""
        ...

    def mask(self, row: int, allowed: NDArray[Any]) -> None:
        """Make every token whose bool in `allowed` (vocab_size long) is false impossible after row `row`."""
        ...

    def logprobs(self, row: int, token: int, top: int) -> tuple[float, tuple[tuple[int, float], ...]]:
        """Natural log-probability of `token` after row `row`, and of the `top` likeliest, among those
        that `mask` left and before any sampling rule."""
        ...

    def set_threads(self, decode: int, prefill: int) -> None: ...

    def close(self) -> None: ...
