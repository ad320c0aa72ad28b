"""An engine without a model that models the KV cells: its next token is a function of what lies in them, and where.

A cell holds a hash of its token, its position, and of every cell its sequence saw when it was computed, in the order of
their places in the cache. So a wrong position, a missed trim, a copy of the wrong range, a cell written over another or
out of order changes the text, and a test that compares with `reference_tokens` fails. It also refuses what llama.cpp
could not do: more cells than there are, holes. Free cells are found as llama.cpp finds them (its `find_slot` and
`seq_rm`): the search goes on from a head, which falls back when a cell before it is freed. With `whole_state` it is a
hybrid, and refuses whatever would cut the state of a sequence.
"""

from __future__ import annotations

import json
from itertools import chain, groupby
from random import Random
from typing import TYPE_CHECKING, Any

from attrs import define, field

from reame.core.checkpoints import in_equal_parts, in_turn
from reame.core.request import before_banned
from reame.engine.base import ModelInfo, Row
from reame.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reame.core.compaction import Segment
    from reame.core.constraint import Matcher
    from reame.core.request import Sampling

_GARBAGE = -1


class FakeVocabulary:
    """Token i is the byte `ALPHABET[i]`; token 0 ends a generation."""

    ALPHABET = b"\0abcdefghijklmnopqrstuvwxyz .,\n"

    def __init__(self, size: int) -> None:
        self.size = size

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [1 + byte % (self.size - 1) for byte in text.encode()]

    def piece(self, token: int) -> bytes:
        return b"" if token == 0 else self.ALPHABET[token : token + 1]

    def spelled(self, token: int) -> bytes:
        return b"<end>" if token == 0 else self.piece(token)


@define
class FakeSampler:
    """Draws with its own random numbers, one for each token."""

    sampling: Sampling
    random: Random
    drawn: list[int]


@define
class Cell:
    """One place in the cache: free when no sequence holds it."""

    position: int = 0
    value: int = 0
    seqs: set[int] = field(factory=set)


class FakeEngine:
    """See the module. The garbage sequence is -1."""

    def __init__(
        self, *, num_cells: int = 64, num_seqs: int = 8, max_rows: int = 16, vocab_size: int = 8,
        whole_state: bool = False,
    ) -> None:  # fmt: skip
        self.vocabulary = FakeVocabulary(vocab_size)
        self.info = ModelInfo(
            name="fake", vocab_size=vocab_size, context_trained=num_cells, eog_tokens=frozenset({0}), bos_token=None,
            adds_bos=False, whole_state=whole_state,
        )  # fmt: skip
        self.num_cells, self.num_seqs, self.max_rows = num_cells, num_seqs, max_rows
        self.num_rows_computed = 0
        self.num_cells_moved = 0
        self.fail_next_decode = False
        self.fail_next_restore = False
        self.threads = (1, 1)
        self.cells = [Cell() for _ in range(num_cells)]
        self._head = 0
        self._logits: dict[int, int] = {}
        self._masks: dict[int, list[bool]] = {}

    def copy(self, src: int, dst: int, length: int) -> None:
        if self.length(dst):
            raise EngineError(f"copy into sequence {dst}, which is not empty")
        self._check_whole(src, length)
        self._tag(src, dst, 0, length)

    def trim(self, seq: int, length: int) -> None:
        if length:
            self._check_whole(seq, min(length, self.length(seq)))
        self._tag(seq, _GARBAGE, length, self.num_cells)
        self._untag(seq, length, self.num_cells)

    def compact(self, pieces: Sequence[Segment]) -> None:
        self._untag(_GARBAGE, 0, self.num_cells)
        for piece in pieces:
            first = piece.seqs[0]
            data = self._read(first, piece.start, piece.stop)
            for seq in piece.seqs:
                self._untag(seq, piece.start, piece.stop)
            self._write(data, set(piece.seqs))
            self.num_cells_moved += piece.stop - piece.start

    def save(self, seq: int, start: int, stop: int) -> bytes:
        self._check_whole(seq, stop - start)
        return self._read(seq, start, stop)

    def _read(self, seq: int, start: int, stop: int) -> bytes:
        return json.dumps([(c.position, c.value) for c in self._held(seq) if start <= c.position < stop]).encode()

    def restore(self, seq: int, start: int, stop: int, data: bytes) -> None:
        if self.fail_next_restore:
            self.fail_next_restore = False
            self._write(json.dumps([(start, 0)]).encode(), {seq})
            raise EngineError("restore failed as asked")
        try:
            positions = [position for position, _ in json.loads(data)]
        except ValueError as error:
            raise EngineError("no saved cells") from error
        if start != self.length(seq) or positions != list(range(start, stop)):
            raise EngineError(f"restore of {start}..{stop} behind {self.length(seq)} positions")
        self._write(data, {seq})

    def length(self, seq: int) -> int:
        return len(self._held(seq))

    def decode(self, rows: Sequence[Row]) -> None:
        if self.fail_next_decode:
            self.fail_next_decode = False
            raise EngineError("decode failed as asked")
        if not 0 < len(rows) <= self.max_rows:
            raise EngineError(f"{len(rows)} rows in a batch of at most {self.max_rows}")
        if sum(not cell.seqs for cell in self.cells) < len(rows):
            raise EngineError("no free cell")
        self._logits, self._masks = {}, {}
        self._look_again(len(rows))
        for index in self._order(rows):
            row = rows[index]
            if not 0 <= row.token < self.info.vocab_size:
                raise EngineError(f"token {row.token} is not in the vocabulary")
            if row.position != self.length(row.seq):
                raise EngineError(f"position {row.position} after {self.length(row.seq)} positions")
            seen = tuple(cell.value for cell in self._held(row.seq))
            value = hash((row.token, row.position, seen))
            self._put(row.position, value, {row.seq})
            if row.sampled:
                self._logits[index] = hash((value, seen))
        self.num_rows_computed += len(rows)

    def _order(self, rows: Sequence[Row]) -> list[int]:
        """The rows in the order in which they take cells."""
        lengths = [len(list(group)) for _, group in groupby(row.seq for row in rows)]
        places = in_equal_parts(lengths) if self.info.whole_state else in_turn(lengths)
        order = [0] * len(rows)
        for index, place in enumerate(chain.from_iterable(places)):
            order[place] = index
        return order

    def _check_whole(self, seq: int, length: int) -> None:
        if self.info.whole_state and length != self.length(seq):
            raise EngineError(f"{length} of the {self.length(seq)} positions that the state of sequence {seq} is of")

    def _write(self, data: bytes, seqs: set[int]) -> None:
        saved = json.loads(data)
        self._look_again(len(saved))
        for position, value in saved:
            self._put(position, value, set(seqs))

    def _held(self, seq: int) -> list[Cell]:
        """In the order of places, as attention goes over them."""
        return [cell for cell in self.cells if seq in cell.seqs]

    def _tag(self, src: int, dst: int, start: int, stop: int) -> None:
        for cell in self._held(src):
            if start <= cell.position < stop:
                cell.seqs.add(dst)

    def _untag(self, seq: int, start: int, stop: int) -> None:
        for place, cell in enumerate(self.cells):
            if seq in cell.seqs and start <= cell.position < stop:
                cell.seqs.discard(seq)
                if not cell.seqs:
                    self._head = min(self._head, place)

    def _look_again(self, num_wanted: int) -> None:
        """llama.cpp searches from the beginning when much is free before the head."""
        if self._head > sum(bool(cell.seqs) for cell in self.cells) + 2 * num_wanted:
            self._head = 0

    def _put(self, position: int, value: int, seqs: set[int]) -> None:
        places = [*range(self._head, self.num_cells), *range(self._head)]
        place = next(p for p in places if not self.cells[p].seqs)
        self.cells[place] = Cell(position, value, seqs)
        self._head = place + 1

    def new_sampler(self, sampling: Sampling, prompt: Sequence[int]) -> FakeSampler:
        return FakeSampler(sampling, Random(sampling.seed), [])

    def free_sampler(self, sampler: object) -> None:
        assert isinstance(sampler, FakeSampler)

    def sample(self, row: int, sampler: object) -> int:
        assert isinstance(sampler, FakeSampler)
        token = fake_token(self._logits[row], sampler, self.info.vocab_size, self._masks.get(row))
        sampler.drawn.append(token)
        return token

    def accept(self, sampler: object, token: int) -> None:
        assert isinstance(sampler, FakeSampler)
        sampler.drawn.append(token)

    def mask(self, row: int, allowed: NDArray[Any]) -> None:
        self._masks[row] = [bool(each) for each in allowed]

    def logprobs(self, row: int, token: int, top: int) -> tuple[float, tuple[tuple[int, float], ...]]:
        logprob = -1.0 - (self._logits[row] % 7)
        return logprob, tuple((t, logprob) for t in range(top))

    def set_threads(self, decode: int, prefill: int) -> None:
        self.threads = (decode, prefill)

    def close(self) -> None:
        self.cells = [Cell() for _ in range(self.num_cells)]


def fake_token(state: int, sampler: FakeSampler, vocab_size: int, allowed: Sequence[bool] | None = None) -> int:
    """The next token after cells that hash to `state`. Rarely the end (1 in 32), else as its sampler draws; when that
    is not allowed, the next one that is."""
    noise = sampler.random.randrange(1 << 16) if sampler.sampling.temperature > 0 else 0
    penalty = len(sampler.drawn) if sampler.sampling.presence_penalty else 0
    draw = hash((state, noise, penalty))
    likeliest = 0 if draw % 32 == 0 else 1 + (draw // 32) % (vocab_size - 1)
    ranked = ((likeliest + place) % vocab_size for place in range(vocab_size))
    return likeliest if allowed is None else next(token for token in ranked if allowed[token])


def reference_tokens(
    prompt: Sequence[int], sampling: Sampling, max_tokens: int, vocab_size: int, matcher: Matcher | None = None
) -> list[int]:
    """The plain loop, one token after the other in an empty engine: what every sequence must give. The oracle."""
    sampler = FakeSampler(sampling, Random(sampling.seed), [])
    seen: tuple[int, ...] = ()
    tokens = list(prompt)
    for position, token in enumerate(prompt[:-1]):
        seen = (*seen, hash((token, position, seen)))
    while len(sampler.drawn) < max_tokens:
        value = hash((tokens[-1], len(tokens) - 1, seen))
        forced = before_banned(matcher.forced(), sampling.banned) if matcher else ()
        if forced:
            token = forced[0]
        else:
            mask = [bool(each) for each in matcher.mask()] if matcher else None
            token = fake_token(hash((value, seen)), sampler, vocab_size, mask)
        seen = (*seen, value)
        sampler.drawn.append(token)
        tokens.append(token)
        if token == 0:
            break
        if matcher:
            matcher.consume(token)
            if matcher.is_over:
                break
    return sampler.drawn
