"""Those who wait for what the decode loop computes: each has a channel, and a closed one says that nobody listens.

Owner: the decode loop. Bound: one for each sequence of its scheduler.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from reame.core.events import Finish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from reame.core.events import Event, Usage
    from reame.core.request import Request
    from reame.core.sequence import Sequence
    from reame.runtime.job import Job

log = logging.getLogger(__name__)


class Clients:
    """`ended` is told of each sequence whose client has its last event."""

    def __init__(self, ended: Callable[[Sequence], None]) -> None:
        self._ended = ended
        self._jobs: dict[Sequence, Job] = {}
        self._absent: list[Sequence] = []
        self.is_nudged = False
        """Somebody may have left: they are looked for before the next step. Also read by the decode thread."""

    def __len__(self) -> int:
        return len(self._jobs)

    def add(self, sequence: Sequence, job: Job) -> None:
        self._jobs[sequence] = job

    def nudge(self) -> None:
        """Somebody left: look who before the next step."""
        self.is_nudged = True

    def usage(self, request: Request) -> Usage | None:
        """What the request took so far; None when nobody waits for it. Also while the scheduler is lent."""
        return next((sequence.usage() for sequence in self._jobs if sequence.request is request), None)

    def take_absent(self) -> list[Sequence]:
        """The sequences that nobody waits for any more, so that nothing more is computed of them."""
        self.is_nudged = False  # before looking: who leaves from now on is looked for again after the next step
        for sequence, job in list(self._jobs.items()):
            if not job.reply.statistics().open_receive_channels:
                self._forget(sequence)
                self._absent.append(sequence)
        absent, self._absent = self._absent, []
        return absent

    def send(self, events: Iterable[tuple[Sequence, Event]]) -> None:
        """Never waits: who does not read is cut off."""
        for sequence, event in events:
            job = self._jobs.get(sequence)
            if job is None:
                continue
            try:
                job.reply.send_nowait((job.index, event))
            except trio.BrokenResourceError:
                self._leave(sequence)
            except trio.WouldBlock:
                log.warning("request %s ended: its client does not read", job.request.id)
                self._leave(sequence)
            else:
                if isinstance(event, Finish):
                    self._forget(sequence)
                    self._ended(sequence)

    def _leave(self, sequence: Sequence) -> None:
        """The scheduler may be lent, so it is told before the next plan."""
        self._forget(sequence)
        self._absent.append(sequence)
        self.nudge()

    def _forget(self, sequence: Sequence) -> None:
        self._jobs.pop(sequence).reply.close()
