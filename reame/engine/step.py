"""Run one batch: the operations in order, one decode of all rows, then draw, verify and trim. Decode thread only."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

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
from reame.core.events import TokenLogprob
from reame.core.sequence import Sequence
from reame.engine.base import Engine, Row, Sampler
from reame.errors import EngineError

if TYPE_CHECKING:
    from reame.core.request import Request

Propose = Callable[[Sequence, tuple[int, ...]], tuple[int, ...]]
"""(sequence, tokens just drawn) -> a guess at what follows them. Any guess is allowed; token ids must exist."""


def _propose_nothing(sequence: Sequence, drawn: tuple[int, ...]) -> tuple[int, ...]:
    return ()


class StepRunner:
    """Owns the engine's cells and the samplers of all requests that are not over."""

    def __init__(self, engine: Engine, propose: Propose = _propose_nothing) -> None:
        self._engine = engine
        self._propose = propose
        self._samplers: dict[str, Sampler] = {}

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
        return StepResult(
            outputs=() if error else outputs,
            seconds=time.perf_counter() - started,
            error=error,
            saved=saved,
            num_restored=num_restored,
            restore_seconds=restore_seconds,
        )

    def close(self) -> None:
        for sampler in self._samplers.values():
            self._engine.free_sampler(sampler)
        self._samplers.clear()
        self._engine.close()

    def lengths(self) -> list[int]:
        """Cells held by each sequence id, for the audit."""
        return [self._engine.length(seq) for seq in range(self._engine.num_seqs)]

    def _compute(self, slices: tuple[Slice, ...]) -> list[Output]:
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
                sampler = self._samplers.pop(request_id, None)
                if sampler is not None:
                    self._engine.free_sampler(sampler)
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

    def _sampler(self, request: Request) -> Sampler:
        if request.id not in self._samplers:
            self._samplers[request.id] = self._engine.new_sampler(request.sampling, request.prompt)
        return self._samplers[request.id]

    def _draw(self, part: Slice, first: int) -> Output:
        """Sample and match: draw the target's own token at each row and go on while it equals the draft. The drawn
        tokens are exactly those of plain decoding, whatever the draft, as each one uses the sampler once.

        `first` is the index of the slice's first row in the batch.
        """
        if not part.samples:
            return Output()
        request, sampler = part.sequence.request, self._sampler(part.sequence.request)
        row = first + len(part.tokens) - part.num_drafted - 1
        draft = part.tokens[len(part.tokens) - part.num_drafted :]
        tokens: list[int] = []
        logprobs: list[TokenLogprob] = []
        while True:
            token = self._engine.sample(row + len(tokens), sampler)
            if request.logprobs is not None:
                logprobs.append(self._logprob(row + len(tokens), token, request.logprobs))
            tokens.append(token)
            matched = len(tokens) <= len(draft) and draft[len(tokens) - 1] == token
            if not matched or token in self._engine.info.eog_tokens:
                break
        self._take_back(part, len(tokens) - 1)
        return Output(tuple(tokens), tuple(logprobs), self._propose(part.sequence, tuple(tokens)))

    def _take_back(self, part: Slice, num_accepted: int) -> None:
        if num_accepted < part.num_drafted:
            self._engine.trim(part.seq, part.start + len(part.tokens) - part.num_drafted + num_accepted)

    def _logprob(self, row: int, token: int, top: int) -> TokenLogprob:
        piece = self._engine.vocabulary.piece
        logprob, rivals = self._engine.logprobs(row, token, top)
        return TokenLogprob(token, piece(token), logprob, tuple((t, piece(t), p) for t, p in rivals))


def _rows(part: Slice) -> list[Row]:
    first_sampled = len(part.tokens) - part.num_drafted - 1 if part.samples else len(part.tokens)
    return [Row(token, part.start + i, part.seq, i >= first_sampled) for i, token in enumerate(part.tokens)]
