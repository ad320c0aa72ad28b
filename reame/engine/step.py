"""Run one batch: the operations in order, one decode of all rows, then draw, verify and trim. Decode thread only."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from attrs import evolve

from reame.core.batch import (
    Batch,
    Compact,
    Copy,
    Forget,
    Operation,
    Output,
    Restore,
    Save,
    Saved,
    Slice,
    StepResult,
    Trim,
)  # fmt: skip
from reame.core.healing import Healing, Pieces
from reame.engine.base import Engine, Row
from reame.engine.drawing import Drawing
from reame.engine.rating import rate
from reame.errors import EngineError, RequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Sequence as Seq

    from reame.core.constraint import Constraint, Matcher
    from reame.core.draft import Draft
    from reame.core.request import Request
    from reame.core.sequence import Sequence


class Drafter(Protocol):
    """Guesses what follows. Called by the decode thread, between two steps: it has a few per cent of one."""

    def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        """A guess at what follows the sequence and the tokens just drawn (not yet in `sequence.tokens`). `hint` is
        what its constraint believes to follow. Token ids must exist; else any guess is allowed."""
        ...

    def forget(self, request_id: str) -> None:
        """The request ended, perhaps without having had a token."""
        ...


class NoDrafter:
    """Never guesses."""

    def propose(self, sequence: Sequence, drawn: tuple[int, ...], hint: tuple[int, ...]) -> Draft | None:
        return None

    def forget(self, request_id: str) -> None: ...


def _no_matcher(constraint: Constraint) -> Matcher:
    raise EngineError("this server was started without constraints")


class StepRunner:
    """Owns the engine's cells, and the samplers and constraints of all requests that are not over."""

    def __init__(
        self,
        engine: Engine,
        drafter: Drafter | None = None,
        new_matcher: Callable[[Constraint], Matcher] = _no_matcher,
        pieces: Pieces | None = None,
    ) -> None:
        """`pieces` are the engine's own; without them they are put in order when the first answer is healed."""
        self._pieces = pieces
        self._engine = engine
        self._drafter = drafter or NoDrafter()
        self._new_matcher = new_matcher
        self._drawings: dict[str, Drawing] = {}

    def run(self, batch: Batch) -> StepResult:
        """What fails in a decode, save or restore is told in the result; a failed decode empties its sequences.

        Raises EngineError when an operation fails: then cells and mirror differ, and the daemon has to end.
        """
        saved = [each for operation in batch.operations if (each := self._apply(operation))]
        num_restored, restore_seconds = self._restore(batch.restores)
        started = time.perf_counter()
        error, outputs = None, []
        if batch.slices and num_restored == len(batch.restores):
            try:
                outputs = self._compute(batch.slices)
            except EngineError as failure:
                error = failure
                for part in batch.slices:
                    self._engine.trim(part.seq, 0)
        seconds = time.perf_counter() - started
        return StepResult(
            outputs=() if error else [self._guess(*each) for each in zip(batch.slices, outputs, strict=False)],
            seconds=seconds,
            error=error,
            saved=saved,
            num_restored=num_restored,
            restore_seconds=restore_seconds,
        )

    def close(self) -> None:
        for drawing in self._drawings.values():
            drawing.close()
        self._drawings.clear()
        self._engine.close()

    def lengths(self) -> list[int]:
        """Cells held by each sequence id, for the audit."""
        return [self._engine.length(seq) for seq in range(self._engine.num_seqs)]

    def _compute(self, slices: Seq[Slice]) -> list[Output]:
        self._engine.decode([row for part in slices for row in _rows(part)])
        outputs, first = [], 0
        for part in slices:
            outputs.append(self._draw(part, first))
            first += len(part.tokens)
        return outputs

    def _apply(self, operation: Operation) -> Saved | None:
        match operation:
            case Copy(src, dst, length):
                self._engine.copy(src, dst, length)
            case Trim(seq, length):
                self._engine.trim(seq, length)
            case Compact(pieces):
                self._engine.compact(pieces)
            case Save():
                return self._save(operation)
            case Forget(request_id):
                self._drafter.forget(request_id)
                if drawing := self._drawings.pop(request_id, None):
                    drawing.close()
        return None

    def _save(self, save: Save) -> Saved | None:
        started = time.perf_counter()
        size = save.block_tokens
        try:
            payloads = tuple(
                self._engine.save(save.seq, start, start + size) for start in range(save.start, len(save.tokens), size)
            )
        except EngineError:
            return None
        return Saved(save, payloads, time.perf_counter() - started)

    def _restore(self, restores: tuple[Restore, ...]) -> tuple[int, float]:
        """How many went in, and the seconds they took. After a failure the rest is left, as it would not follow."""
        started = time.perf_counter()
        for number, restore in enumerate(restores):
            try:
                self._engine.restore(restore.seq, restore.block.start, restore.block.stop, restore.block.payload)
            except EngineError:
                self._engine.trim(restore.seq, restore.block.start)
                return number, time.perf_counter() - started
        return len(restores), time.perf_counter() - started

    def _drawing(self, request: Request) -> Drawing:
        if request.id not in self._drawings:
            matcher = self._new_matcher(request.constraint) if request.constraint else None
            self._drawings[request.id] = Drawing(self._engine, request, matcher, self._healing(request))
        return self._drawings[request.id]

    def _healing(self, request: Request) -> Healing | None:
        if not request.healed:
            return None
        if self._pieces is None:
            info = self._engine.info
            self._pieces = Pieces(self._engine.vocabulary.piece, info.vocab_size, ends=info.eog_tokens)
        return Healing(self._pieces, request.healed)

    def _draw(self, part: Slice, first: int) -> Output:
        """Draw what follows the slice, verify its draft, and take back the rows that did not come true.

        `first` is the index of the slice's first row in the batch.
        """
        rated = rate(self._engine, part, first)
        if not part.samples:
            return Output(rated=rated)
        num_known = len(part.tokens) - part.num_drafted
        try:
            output = self._drawing(part.sequence.request).verify(first + num_known - 1, part.tokens[num_known:])
        except RequestError as failure:
            output = Output(error=failure)
        if rated:
            output = evolve(output, rated=rated)
        if output.num_accepted < part.num_drafted:
            self._engine.trim(part.seq, part.start + num_known + output.num_accepted)
        return output

    def _guess(self, part: Slice, output: Output) -> Output:
        """The output with a draft of what follows it, cut where the constraint would forbid it. Not within the step's
        time: that is what rows cost."""
        is_last = part.sequence.num_left <= len(output.tokens)
        if not output.tokens or output.is_over or is_last or output.tokens[-1] in self._engine.info.eog_tokens:
            return output
        matcher = self._drawing(part.sequence.request).matcher
        draft = self._drafter.propose(part.sequence, output.tokens, matcher.guess() if matcher else ())
        if draft and matcher:
            draft = draft.cut(matcher.legal_prefix(draft.tokens))
        return evolve(output, draft=draft) if draft else output


def _rows(part: Slice) -> list[Row]:
    first_sampled = len(part.tokens) - part.num_drafted - 1 if part.samples else len(part.tokens)
    rated = part.rated
    return [
        Row(token, part.start + i, part.seq, i >= first_sampled or i in rated) for i, token in enumerate(part.tokens)
    ]
