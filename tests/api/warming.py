"""A scripted intake that can also be asked to pin, and the script of a prompt that is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from attrs import define, field
from scripted import ScriptedIntake, finish

from reame.core.events import Delta

if TYPE_CHECKING:
    from scripted import Step


def computed(*counts: int) -> list[Step]:
    """One prompt of five tokens, of which so many are computed after each step, then its end: two were there."""
    return [*((0, Delta(num_computed=count)) for count in counts), (0, finish(completion=0))]


@define
class WarmingIntake(ScriptedIntake):
    """`pins`: tokens, namespace and until; `keeps`: it has a disk."""

    pins: list[tuple[tuple[int, ...], str, float]] = field(factory=list)
    keeps: bool = True

    async def pin(self, tokens: tuple[int, ...], *, namespace: str, until: float, era: int = 0) -> bool:
        await trio.lowlevel.checkpoint()
        self.pins.append((tokens, namespace, until))
        return self.keeps
