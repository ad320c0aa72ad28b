"""What waits to be written to disk, in order. Owner: `Memory`, in the Trio thread.

Bound: `MAX_PENDING` bytes of cells wait, or one task that is larger (such as a large state), and `MAX_TEXTS` bytes of
all else: neither keeps the other out. What comes on top is refused, but for what somebody waits for.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import trio
from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_PENDING, MAX_TEXTS = 64 << 20, 16 << 20
SHARE = 0.005
"""Of the time, that writing may take while somebody waits for tokens: a core that it takes is one that a step lacks,
and all threads of the step wait for that one."""
MOST_REST_S = 10.0
"""What debts may add up to."""
LOOK_S = 0.1
"""Seconds between two looks whether anybody still waits for tokens."""


@frozen(eq=False)
class Task:
    """`job` is for an I/O thread; `size` bytes, of cells or not, are held for it until it is done. `written` is set
    then."""

    namespace: str
    size: int
    job: Callable[[], object]
    written: trio.Event | None = None
    of_cells: bool = False

    @property
    def room(self) -> int:
        return MAX_PENDING if self.of_cells else MAX_TEXTS


class Backlog:
    """Urgent tasks before the others, each kind in the order of its coming."""

    def __init__(self) -> None:
        self._urgent: deque[Task] = deque()
        self._other: deque[Task] = deque()
        self._num_bytes = {False: 0, True: 0}
        """Not of cells, and of cells."""
        self._news = trio.Event()
        self._closed = False
        self._rest_until = 0.0

    @property
    def is_half_full(self) -> bool:
        """Of cells."""
        return self._num_bytes[True] > MAX_PENDING // 2

    def put(self, task: Task, *, urgent: bool = False) -> bool:
        """False: there is no room, and the task is forgotten. One that somebody waits for, by `written`, is taken."""
        taken = self._num_bytes[task.of_cells]
        if task.written is None and taken and taken + task.size > task.room:
            return False
        (self._urgent if urgent else self._other).append(task)
        self._num_bytes[task.of_cells] += task.size
        self._news.set()
        return True

    async def next(self) -> Task | None:
        """The task to do now, to be told `done` afterwards; None once it is closed and empty."""
        while not (self._urgent or self._other):
            if self._closed:
                return None
            await self._news.wait()
            self._news = trio.Event()
        return (self._urgent or self._other).popleft()

    def done(self, task: Task) -> None:
        self._num_bytes[task.of_cells] -= task.size
        if task.written is not None:
            task.written.set()

    def drop(self, namespace: str) -> None:
        """Nothing that waits for this namespace will be written. What is being written goes on."""
        for tasks in (self._urgent, self._other):
            for task in [task for task in tasks if task.namespace == namespace]:
                tasks.remove(task)
                self.done(task)

    async def rest(self, cost_s: float, is_busy: Callable[[], bool]) -> None:
        """After a task that took `cost_s` seconds of a processor: until that is `SHARE` of the time, or nobody needs
        the processor more, or something urgent has come, or half of a room is taken, or it is closed. What something
        urgent cut short is made up for."""
        now, due = trio.current_time(), cost_s / SHARE
        self._rest_until = max(now + due, min(self._rest_until + due, now + MOST_REST_S))
        while not (self._urgent or self._closed or self._is_crowded):
            if not is_busy():
                self._rest_until = 0.0
                return
            left = self._rest_until - trio.current_time()
            if left <= 0:
                return
            with trio.move_on_after(min(left, LOOK_S)):
                await self._news.wait()
                self._news = trio.Event()

    @property
    def _is_crowded(self) -> bool:
        return self.is_half_full or self._num_bytes[False] > MAX_TEXTS // 2

    def close(self) -> None:
        """Nothing more will come: `next` ends when all is done."""
        self._closed = True
        self._news.set()
