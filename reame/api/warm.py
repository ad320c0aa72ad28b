"""A call of `POST /v1/warm` under way: what is computed of its prompts by now, and one object at the end. No sockets.

Progress counts computed tokens whoever computed them. The last token of a prompt is never computed here: that happens,
for its logits, when somebody asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from reame.api.chunks import dumps
from reame.api.replies import Tally
from reame.core.events import Delta, Finish

if TYPE_CHECKING:
    from reame.api.replies import Head
    from reame.core.events import Event


class Replies(Protocol):
    """What this needs of the runtime. A wait that is cancelled loses no event."""

    prompts: tuple[tuple[int, ...], ...]

    async def __anext__(self) -> tuple[int, Event]: ...


class Pin(Protocol):
    """Keeps these tokens on disk until then (Unix time, seconds); False when nothing is kept on disk here."""

    async def __call__(self, tokens: tuple[int, ...], *, until: float) -> bool: ...


class Warming:
    """An iterator of (prompt, event), and what to tell of each event: see `reame.api.sse`.

    It begins with an event of its own, so that a client learns at once how much there is to do. `until`: a prompt that
    is computed is pinned until then, before its end is told; None: none is.
    """

    def __init__(self, replies: Replies, head: Head, pin: Pin, *, until: int | None) -> None:
        self._replies = replies
        self._head = head
        self._pin = pin
        self._until = until
        self._lengths = [len(prompt) for prompt in replies.prompts]
        self._computed = [0] * len(self._lengths)
        self._tally = Tally(1)
        self._coming: tuple[int, Event] | None = (0, Delta())

    def __aiter__(self) -> Warming:
        return self

    async def __anext__(self) -> tuple[int, Event]:
        """A wait that is cancelled loses nothing: an event is kept until its prompt is pinned."""
        if self._coming is None:
            self._coming = await self._replies.__anext__()
        index, event = self._coming
        if self._until is not None and isinstance(event, Finish) and event.error is None:
            is_kept = await self._pin(self._replies.prompts[index], until=self._until)
            self._until = self._until if is_kept else None
        self._coming = None
        return index, event

    def ready(self) -> tuple[int, Event] | None:
        """Progress goes out one by one: pinning, at an end, has to wait."""
        return None

    def take(self, index: int, event: Event) -> bytes:
        """The lines of a stream for one event. Raises the RequestError of a prompt that failed."""
        if isinstance(event, Delta):
            self._computed[index] = event.num_computed
            return self._progress()
        if event.error is not None:
            raise event.error
        self._computed[index] = self._lengths[index]
        self._tally.add(index, event)
        return f"data: {dumps(self.whole())}\n\ndata: [DONE]\n\n".encode() if self.is_over else self._progress()

    @property
    def is_over(self) -> bool:
        """Every prompt is computed."""
        return len(self._tally.timings) == len(self._lengths)

    def whole(self) -> dict[str, Any]:
        """The answer, once all is over."""
        wanted = sum(self._lengths) - len(self._lengths)
        reame = self._tally.reame(wanted)
        return {
            "object": "warm",
            "id": f"warm-{self._head.id}",
            "created": self._head.created,
            "model": self._head.model,
            "prompt_tokens": sum(self._lengths),
            "cached_tokens": wanted - reame["computed_tokens"],
            "computed_tokens": reame["computed_tokens"],
            "pinned_until": self._until,
            "reame": reame,
        }

    def _progress(self) -> bytes:
        counts = {"computed_tokens": sum(self._computed), "prompt_tokens": sum(self._lengths)}
        return f"data: {dumps({'object': 'warm.progress'} | counts)}\n\n".encode()
