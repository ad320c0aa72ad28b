"""Small requests, a scheduler over a few cells, and a step that is played by hand instead of run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.core.batch import Batch, Output, Slice, StepResult
from reame.core.draft import Draft
from reame.core.events import Delta, Finish
from reame.core.limits import Limits
from reame.core.request import Request
from reame.core.scheduler import Scheduler
from reame.core.slots import Slot, Slots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.core.admission import Admission
    from reame.core.sequence import Sequence

LETTERS = b".abcdefghijklmnopqrstuvwxyz"
"""Token 0 ends a generation, 1 is "a", 2 is "b", ..."""


def request(
    name: str, prompt: str | list[int], max_tokens: int = 4, *, key: str = "", namespace: str = "",
    stop: tuple[str, ...] = (), deadline: float = float("inf"), logprobs: int | None = None,
) -> Request:  # fmt: skip
    tokens = [LETTERS.index(char) for char in prompt.encode()] if isinstance(prompt, str) else prompt
    return Request(
        id=name, prompt=tuple(tokens), max_tokens=max_tokens, key=key, namespace=namespace, stop=stop,
        deadline=deadline, logprobs=logprobs,
    )  # fmt: skip


def scheduler(
    num_cells: int = 100, num_seqs: int = 4, *, max_running: int = 2, max_rows: int = 16, max_sampled: int = 16,
    reserve: int = 4, min_wait: int = 4, min_chunk: int = 2, row_group: int = 1, min_garbage: int = 1024,
    rent_rows: int = 128, block_tokens: int = 0, step_seconds: float = 1.0, prefill_seconds: float = 1.0,
    lone_seconds: float = 1.0,
) -> Scheduler:  # fmt: skip
    limits = Limits(
        max_running=max_running, max_rows=max_rows, max_sampled=max_sampled, reserve=reserve, min_wait=min_wait,
        min_chunk=min_chunk, row_group=row_group, min_garbage=min_garbage, rent_rows=rent_rows,
        step_seconds=step_seconds, prefill_seconds=prefill_seconds, lone_seconds=lone_seconds,
    )  # fmt: skip
    return Scheduler(
        Slots(num_cells, num_seqs), limits, piece=lambda token: LETTERS[token : token + 1] if token else b"",
        eog_tokens=frozenset({0}), block_tokens=block_tokens,
    )  # fmt: skip


def rows(batch: Batch | None) -> dict[str, int]:
    """Rows of each request in the batch, in the batch's order."""
    assert batch is not None
    return {part.sequence.request.id: len(part.tokens) for part in batch.slices}


def play(
    loop: Scheduler, drawn: Mapping[str, list[int]] | None = None, *, now: float = 0.0, seconds: float = 0.0,
    drafts: Mapping[str, tuple[int, ...]] | None = None,
) -> Batch:  # fmt: skip
    """Plan one step and commit it as if `drawn` came out of it ("a" for those not named)."""
    batch = loop.plan(now)
    assert batch is not None
    outputs = [_output(part, drawn or {}, drafts or {}) for part in batch.slices]
    loop.commit(batch, StepResult(outputs=outputs, seconds=seconds or 0.001 * batch.num_rows), now)
    return batch


def _output(part: Slice, drawn: Mapping[str, list[int]], drafts: Mapping[str, tuple[int, ...]]) -> Output:
    name = part.sequence.request.id
    if not part.samples:
        return Output()
    tokens = tuple(drawn.get(name, [1]))
    return Output(tokens, num_accepted=len(tokens) - 1, draft=sure(*drafts.get(name, ())))


def sure(*tokens: int) -> Draft | None:
    """A draft that is believed in."""
    return Draft(tokens, (0.95,) * len(tokens), "test") if tokens else None


def cheap_rows(loop: Scheduler) -> None:
    """Let further rows of a step cost next to nothing, so that every draft pays."""
    loop.cost.seed({1: 0.010, 64: 0.011})


def told(loop: Scheduler) -> dict[str, list[str]]:
    """What every client was told since the last time: texts, then how it ended."""
    events: dict[str, list[str]] = {}
    for sequence, event in loop.take_events():
        events.setdefault(sequence.request.id, []).append(_word(event))
    return events


def _word(event: Delta | Finish) -> str:
    if isinstance(event, Delta):
        return event.text
    return f"<{event.reason or (event.error and event.error.code)}>"


def running(slots: Slots, tokens: list[int], namespace: str = "") -> Slot:
    """A lent slot in which `tokens` were computed."""
    slot = slots.empty()
    assert slot is not None
    slots.lend(slot, namespace)
    slots.append(slot, tokens, slots.write(len(tokens)))
    return slot


def resident(slots: Slots, tokens: list[int], namespace: str = "") -> Slot:
    """A finished sequence that holds `tokens`."""
    slot = running(slots, tokens, namespace)
    slots.retire(slot)
    return slot


def names(sequences: list[Sequence]) -> list[str]:
    return [sequence.request.id for sequence in sequences]


def held(admission: Admission) -> list[list[int]]:
    return [slot.tokens for slot in admission.slots.slots]
