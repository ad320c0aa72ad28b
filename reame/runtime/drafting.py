"""From the config to the drafter: which sources guess, and what the measured steps say about drafts at all."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from reame.speculation.drafter import Drafter
from reame.speculation.sources import MOST, Archived, Companions, Hint, PromptLookup

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reame.config import Config
    from reame.core.cost import StepCost
    from reame.engine.base import Vocabulary
    from reame.memory.archive import Archive
    from reame.speculation.palimpsest import Site

SHOWN_ROWS = (4, 16)


def new_drafter(config: Config, vocabulary: Vocabulary, archive: Archive | None) -> Drafter | None:
    """None when the config wants no drafts."""
    if not config.speculation.enabled:
        return None
    drafter = Drafter(vocabulary.piece)
    drafter.sources += [Hint(), PromptLookup(), Companions(drafter.texts)]
    if archive is not None:
        drafter.sources.append(Archived(partial(_continuations, archive)))
    return drafter


def outlook(cost: StepCost) -> str:
    """What steps cost here, in a sentence: why drafts will be used much or little."""
    one = cost.seconds(1)
    parts = [
        f"{rows} rows cost {cost.seconds(rows) / one:.1f} steps (a draft of {rows - 1} pays from "
        f"{max(0.0, cost.seconds(rows) / one - 1) / (rows - 1):.0%} of it right)"
        for rows in SHOWN_ROWS
    ]
    return f"speculation on, each draft as long as it pays: {', '.join(parts)}"


def _continuations(archive: Archive, tail: Sequence[int], namespace: str) -> list[Site]:
    return archive.continuations(tail, namespace=namespace, most=MOST)
