"""Texts to vectors for `/v1/embeddings`: one text after the other, in pieces between the steps of the decode loop.

Bounds: `scheduler.queue` texts wait for their turn, the next one gets 429; `MOST_KEPT` vectors of late are kept, each
for the namespace that asked.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter, OrderedDict
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Protocol

import trio
from attrs import evolve, frozen

from reame.catalog import split_parts
from reame.engine.canary import check
from reame.engine.llama_embedder import LlamaEmbedder
from reame.errors import EngineError, RequestError
from reame.runtime.fit import fitted, trained_context
from reame.runtime.logs import event as log_event
from reame.runtime.model import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from reame.config import Config, SchedulerConfig
    from reame.engine.base import Vocabulary
    from reame.engine.llama import LlamaOptions
    from reame.engine.thread import Caller
    from reame.runtime.allowance import DailyTokens
    from reame.runtime.metrics import Metrics

MOST_KEPT = 1024
LONG_PIECE = 10
"""Times the patience with a step: an encoder reads a whole text at once."""
INLINE_CHARACTERS = 4096
"""Longer texts are tokenised in an I/O thread: the event loop may not stand still."""
COMMAND = (sys.executable, "-P", "-m", "reame.engine.llama_embedder")

log = logging.getLogger("reame.requests")


class Embedder(Protocol):
    """What is needed of the engine: see `LlamaEmbedder`."""

    context: int
    piece_rows: int
    size: int
    vocabulary: Vocabulary
    vocab_size: int

    def begin(self) -> None: ...

    def feed(self, tokens: Sequence[int]) -> None: ...

    def vector(self) -> NDArray[np.float32]: ...

    def close(self) -> None: ...


@frozen
class Embedded:
    """A vector for each text, in order, and how many tokens the texts have together."""

    vectors: list[NDArray[np.float32]]
    num_tokens: int


def load_embedder(
    config: Config, path: Path, options: LlamaOptions, *, go_on: Callable[[], bool], beside: int = 0
) -> Callable[[], LlamaEmbedder]:
    """Tries the model out in a child process, and gives what loads it in the decode thread. `beside`: bytes that others
    are about to take. Blocks for seconds.

    Raises ModelError when it does not fit or run here, or was given up.
    """
    context = min(config.embeddings.context, trained_context(path) or config.embeddings.context)
    options = fitted(
        path,
        evolve(
            options, num_cells=context, num_seqs=1, max_rows=context, mlock=False, kv_type="f16",
            extra_buffers=config.engine.extra_buffers != "off",
        ),
        may_switch=config.engine.extra_buffers == "auto", beside=beside,
        cure="lower embeddings.context, or take a smaller embeddings.model",
    )  # fmt: skip
    if config.engine.canary:
        parts = split_parts(path)
        verdict = check(path, options, cache_dir=cache_dir(), parts=parts, command=COMMAND, go_on=go_on)
        options = evolve(options, extra_buffers=options.extra_buffers and verdict.extra_buffers)
    return partial(LlamaEmbedder, path, options)


class Embeddings:
    """The embeddings model that is served."""

    def __init__(
        self,
        model_id: str,
        embedder: Embedder,
        thread: Caller,
        metrics: Metrics,
        tokens: DailyTokens,
        bounds: SchedulerConfig,
    ) -> None:
        self.id = model_id
        self.context = embedder.context
        self.size = embedder.size
        self._embedder = embedder
        self._thread = thread
        self._metrics = metrics
        self._tokens = tokens
        self._bounds = bounds
        self._turn = trio.Lock()
        self._io = trio.CapacityLimiter(1)
        self._num_waiting = 0
        self._next_at = -inf
        self.is_busy: Callable[[], bool] = lambda: False
        """Whether somebody is being answered: then every other second is theirs."""
        self.patience = 1
        """Times as long as usual that the decode thread may take now before it counts as stalled."""
        self._eras: Counter[str] = Counter()
        self._kept: OrderedDict[tuple[str, tuple[int, ...]], NDArray[np.float32]] = OrderedDict()

    async def embed(self, texts: Sequence[str | tuple[int, ...]], *, key: str, namespace: str) -> Embedded:
        """Raises RequestError: 400 a text is empty, too long or no tokens of this model; 429 too many wait; 408 it
        takes longer than a request may."""
        outcome, started, num_tokens, vectors = "cancelled", time.monotonic(), 0, []
        era = self._eras[namespace]
        try:
            self._tokens.check(key)
            tokens = await self._tokens_of(texts)
            num_tokens = sum(map(len, tokens))
            with trio.move_on_after(self._bounds.request_timeout_s):
                for each in tokens:
                    vectors.append(await self._vector(each, namespace, era))
                    self._tokens.spend(key, len(each))
            if len(vectors) < len(tokens):
                raise RequestError(
                    "the request took longer than its timeout (scheduler.request_timeout_s): send fewer texts at once",
                    status=408,
                    code="request_timeout",
                )
            outcome = "ok"
        except RequestError as error:
            outcome = "refused" if error.status == 429 else error.code or "invalid"
            raise
        except EngineError as error:
            outcome = "engine_error"
            raise RequestError("a step failed inside llama.cpp", status=500, code="engine_error") from error
        finally:
            self._metrics.requests.labels(outcome).inc()
            milliseconds = round(1e3 * (time.monotonic() - started))
            log_event(log, "embeddings", key=key or None, outcome=outcome, tokens=num_tokens, ms=milliseconds)
        self._metrics.prompt_tokens.inc(num_tokens)
        return Embedded(vectors, num_tokens)

    def forget(self, namespace: str) -> None:
        """The vectors of this namespace's texts. What is being computed will not be kept."""
        self._eras[namespace] += 1
        for name in [name for name in self._kept if name[0] == namespace]:
            del self._kept[name]

    async def close(self) -> None:
        """Nobody asks any more."""
        await self._thread.call(self._embedder.close)

    async def _tokens_of(self, texts: Sequence[str | tuple[int, ...]]) -> list[tuple[int, ...]]:
        if sum(map(len, texts)) <= INLINE_CHARACTERS:
            return self._tokenise(texts)
        return await trio.to_thread.run_sync(self._tokenise, texts, limiter=self._io)

    def _tokenise(self, texts: Sequence[str | tuple[int, ...]]) -> list[tuple[int, ...]]:
        tokens = []
        for index, text in enumerate(texts):
            if isinstance(text, str):
                text = tuple(self._embedder.vocabulary.tokenize(text, add_special=True, parse_special=False))
            self._check(index, text)
            tokens.append(text)
        return tokens

    def _check(self, index: int, tokens: tuple[int, ...]) -> None:
        param = f"input[{index}]"
        if not tokens:
            raise RequestError(f"{param} is empty.", param=param)
        if len(tokens) > self.context:
            raise RequestError(
                f"prompt is too long: {param} has {len(tokens)} tokens, {self.id} takes {self.context}; split it",
                param=param,
                code="context_length_exceeded",
            )
        if min(tokens) < 0 or max(tokens) >= self._embedder.vocab_size:
            raise RequestError(f"{param} has a token id that {self.id} does not have.", param=param)

    async def _vector(self, tokens: tuple[int, ...], namespace: str, era: int) -> NDArray[np.float32]:
        name = namespace, tokens
        if self._num_waiting > self._bounds.queue:  # one of them is at it
            raise RequestError("too many texts wait to be embedded", status=429, code="queue_full", retry_after=2)
        self._num_waiting += 1
        try:
            async with self._turn:
                vector = self._kept[name] if name in self._kept else await self._compute(tokens)
        finally:
            self._num_waiting -= 1
        if era == self._eras[namespace]:
            self._kept[name] = vector
            self._kept.move_to_end(name)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        return vector

    async def _compute(self, tokens: tuple[int, ...]) -> NDArray[np.float32]:
        """Each piece in one turn of the decode thread, as each turn may wait for a step."""
        embedder, size, vector = self._embedder, self._embedder.piece_rows, None

        def take(start: int) -> NDArray[np.float32] | None:
            if not start:
                embedder.begin()
            embedder.feed(tokens[start : start + size])
            return embedder.vector() if start + size >= len(tokens) else None

        for start in range(0, len(tokens), size):
            await trio.sleep_until(self._next_at if self.is_busy() else -inf)
            began = trio.current_time()
            self.patience = LONG_PIECE
            try:
                vector = await self._thread.call(partial(take, start))
            finally:
                self.patience = 1
            self._next_at = 2 * trio.current_time() - began
        assert vector is not None
        return vector
