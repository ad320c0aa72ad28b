"""How long ggml's threads spin at their barriers before they sleep, changed while they run.

libgomp reads its spin count once, as it loads. But it knows two, and takes the short one while it has more threads than
there are CPUs (`gomp_throttled_spin_count_var`: 1,000 turns under OMP_WAIT_POLICY=active). So a team of threads that
sleep makes all others spin shortly, and once it is gone they spin long again. Source: GCC's libgomp (env.c, wait.h,
team.c).
"""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SHORT = 1_000
"""Turns of libgomp's short spin under OMP_WAIT_POLICY=active."""
FIXED = 3_000
"""Turns for programs that do not look at their company: hardly slower alone, and good beside others."""
LONG = 300_000
"""Turns: some milliseconds, libgomp's own default. Longer than any part of a step that one thread computes alone, and
short enough that idle threads soon sleep."""
SPARE = 32
"""Threads that others, or this process elsewhere, may want at the same time as a team is opened."""
_NAMES = "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"
_state = {"adapts": False}


def set_spin(count: int) -> None:
    """Before libgomp is loaded: always `count` turns, or with 0 as `SpinSwitch` says. What the user's environment says
    is left alone."""
    if any(name in os.environ for name in _NAMES):
        return
    os.environ["GOMP_SPINCOUNT"] = str(count or LONG)
    if not count:
        os.environ["OMP_WAIT_POLICY"] = "active"
        _state["adapts"] = True


def spin_switch(room: Callable[[], int | None]) -> SpinSwitch | None:
    """Once ggml is loaded; None where the spin is fixed, or ggml's threads are not libgomp's. `room` as in
    `SpinSwitch`."""
    if not _state["adapts"]:
        return None
    try:
        return SpinSwitch(ctypes.CDLL("libgomp.so.1", mode=os.RTLD_NOLOAD), room)
    except OSError:
        return None


class SpinSwitch:
    """Spins long at first. Neither call waits; owner: the tuner. `room`: how many threads may still be started."""

    def __init__(self, libgomp: ctypes.CDLL, room: Callable[[], int | None]) -> None:
        self._libgomp: Any = libgomp
        self._room = room
        self._ends: threading.Event | None = None

    def shorten(self) -> bool:
        """Whether it did: not without room for the team, as libgomp ends the process when it gets no thread."""
        if self._ends is None:
            wanted, room = len(os.sched_getaffinity(0)) + 1, self._room()
            if room is not None and room < wanted + SPARE:
                return False
            self._ends = threading.Event()
            threading.Thread(target=self._hold_team, args=(self._ends,), name="spin", daemon=True).start()
        return True

    def lengthen(self) -> None:
        if self._ends is not None:
            self._ends.set()
            self._ends = None

    def _hold_team(self, ends: threading.Event) -> None:
        """libgomp keeps the team of this thread, asleep, until the thread ends."""
        nothing = ctypes.cast(self._libgomp.omp_get_thread_num, ctypes.c_void_p)
        num_threads = len(os.sched_getaffinity(0)) + 1
        self._libgomp.GOMP_parallel(nothing, None, ctypes.c_uint(num_threads), ctypes.c_uint(0))
        ends.wait()
