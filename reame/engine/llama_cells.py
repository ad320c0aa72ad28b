"""What the sequences of a llama.cpp context hold: cells, and in some models a state. Decode thread only.

`llama_memory_seq_cp` tags cells with a second sequence, and has a recurrent or hybrid model's states shared, whatever
the range of positions: a state is copied when one of those that share it goes on. Cells can be let go of from any
position on, a state only as a whole. With an empty range of positions only states are shared, and a sequence without
one takes another's away: so the cells of a hybrid can be moved alone.
"""

from __future__ import annotations

import ctypes
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from reame.engine.llama_library import take_errors
from reame.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reame.core.compaction import Segment


class LlamaCells:
    """The part of `engine.base.Engine` that is about cells, for the sequence ids 0..num_seqs-1 of a context.

    It needs `footprint.EXTRA_SEQS` more: the garbage sequence has what was let go of, so that llama.cpp does not fill
    it again one by one; through the scratch sequence bytes come and go. Neither has a state but in passing.
    `has_window`: some layers see the last tokens only.
    """

    def __init__(self, library: Any, context: Any, *, num_seqs: int, whole_state: bool, has_window: bool) -> None:
        self._library = library
        self._context = context
        self._memory = library.llama_get_memory(context)
        self._whole_state = whole_state
        self._has_window = has_window
        self._num_seqs = num_seqs
        self._garbage, self._scratch = num_seqs, num_seqs + 1

    def copy(self, src: int, dst: int, length: int) -> None:
        self._check_whole(src, length)
        self._share(src, dst, 0, length)

    def trim(self, seq: int, length: int) -> None:
        if self._whole_state and length:
            self._check_whole(seq, min(length, self.length(seq)))
            return
        self._share(seq, self._garbage, length, -1)
        if self._whole_state:
            self._take_state(self._garbage)
        self._remove(seq, length, -1)

    def compact(self, pieces: Sequence[Segment]) -> None:
        self._remove(self._garbage, 0, -1)
        for piece in pieces:
            data = self._read(piece.seqs[0], piece.start, piece.stop, state=False)
            for seq in piece.seqs:
                with self._state_apart(seq):
                    self._remove(seq, piece.start, piece.stop)
            with self._guarded():
                self._fill_scratch(data, piece.start, piece.stop, state=False)
            for seq in piece.seqs:
                with self._state_apart(seq):
                    self._share(self._scratch, seq, piece.start, piece.stop)
            self._remove(self._scratch, 0, -1)

    def save(self, seq: int, start: int, stop: int) -> bytes:
        self._check_whole(seq, stop - start)
        return self._read(seq, start, stop)

    def restore(self, seq: int, start: int, stop: int, data: bytes) -> None:
        self._check_whole(seq, start)
        try:
            self._fill_scratch(data, start, stop)
            self._share(self._scratch, seq, start, stop)
        finally:
            self._remove(self._scratch, 0, -1)

    def length(self, seq: int) -> int:
        return int(self._library.llama_memory_seq_pos_max(self._memory, seq)) + 1

    def _share(self, src: int, dst: int, start: int, stop: int) -> None:
        """The cells; and in any case the state: `dst` then has that of `src`, or none if that has none."""
        self._library.llama_memory_seq_cp(self._memory, src, dst, start, stop)

    def _remove(self, seq: int, start: int, stop: int) -> None:
        if not self._library.llama_memory_seq_rm(self._memory, seq, start, stop):
            raise EngineError(f"llama.cpp could not remove cells of sequence {seq} from position {start} on")

    def _take_state(self, seq: int) -> None:
        """Away from the garbage or the scratch sequence; the other one of them has none."""
        self._share(self._garbage + self._scratch - seq, seq, 0, 0)

    @contextmanager
    def _state_apart(self, seq: int) -> Iterator[None]:
        """Meanwhile `seq` is its cells only, and the garbage sequence has its state. The scratch sequence has none."""
        if not self._whole_state:
            yield
            return
        self._share(seq, self._garbage, 0, 0)
        self._share(self._scratch, seq, 0, 0)
        yield
        self._share(self._garbage, seq, 0, 0)
        self._take_state(self._garbage)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Meanwhile each cell that is held has a second holder, the garbage sequence, which has nothing else now. Else
        llama.cpp, looking for free cells below others, takes those too that their only holder's window has passed
        (`llama_kv_cache::find_slot`), and drops what came before them."""
        if not self._has_window:
            yield
            return
        for seq in filter(self.length, range(self._num_seqs)):
            self._share(seq, self._garbage, 0, -1)
            if self._whole_state:
                self._take_state(self._garbage)
        yield
        self._remove(self._garbage, 0, -1)

    def _check_whole(self, seq: int, length: int) -> None:
        if self._whole_state and length != self.length(seq):
            raise EngineError(f"the state of sequence {seq} is that of {self.length(seq)} positions, not of {length}")

    def _read(self, seq: int, start: int, stop: int, *, state: bool = True) -> bytes:
        self._share(seq, self._scratch, start, stop)
        if self._whole_state and not state:
            self._take_state(self._scratch)
        size = self._library.llama_state_seq_get_size(self._context, self._scratch)
        data = (ctypes.c_uint8 * size)()
        written = self._library.llama_state_seq_get_data(self._context, data, size, self._scratch)
        self._remove(self._scratch, 0, -1)
        if written != size:
            raise EngineError(f"llama.cpp could not save cells: {'; '.join(take_errors())}")
        return bytes(data)

    def _fill_scratch(self, data: bytes, start: int, stop: int, *, state: bool = True) -> None:
        """What lies in the scratch sequence must be exactly the positions asked for: nothing half right gets in. Of a
        state llama.cpp tells the last position only."""
        buffer = (ctypes.c_uint8 * len(data)).from_buffer_copy(data)
        read = self._library.llama_state_seq_set_data(self._context, buffer, len(data), self._scratch)
        found = self._library.llama_memory_seq_pos_min(self._memory, self._scratch), self.length(self._scratch)
        if self._whole_state:
            start, found = 0, (0, found[1])
            stop = stop if state else 0
        if read != len(data) or found != (start, stop):
            raise EngineError(f"llama.cpp could not restore cells: {'; '.join(take_errors()) or 'other positions'}")
