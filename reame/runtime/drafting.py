"""From the config to the drafter: which sources guess, and what the measured steps say about drafts at all."""

from __future__ import annotations

import logging
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from attrs import evolve

from reame.catalog import resolve
from reame.engine.draft_model import DraftModel
from reame.engine.llama import LlamaEngine
from reame.errors import ModelError
from reame.runtime.archiving import tokenizer_fingerprint
from reame.runtime.model import try_out
from reame.speculation.drafter import Drafter
from reame.speculation.forms import guess
from reame.speculation.sources import MOST, Archived, Companions, Forms, Hint, PromptLookup, Realigned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from reame.config import Config
    from reame.core.cost import StepCost
    from reame.core.scheduler import Scheduler
    from reame.engine.base import Engine, Vocabulary
    from reame.engine.llama import LlamaOptions
    from reame.memory.archive import Archive
    from reame.speculation.palimpsest import Site

SHOWN_ROWS = (4, 16)
DRAFT_ROWS = 64
"""Rows of the draft model's steps at most."""

log = logging.getLogger(__name__)


def new_drafter(config: Config, vocabulary: Vocabulary, archive: Archive | None) -> Drafter | None:
    """None when the config wants no drafts."""
    if not config.speculation.enabled:
        return None
    drafter = Drafter(vocabulary.piece, clock=perf_counter)
    tokenize = partial(vocabulary.tokenize, add_special=False, parse_special=False)
    forms = Forms(guess, tokenize, vocabulary.piece)
    drafter.sources += [Hint(), PromptLookup(), Companions(drafter.texts), forms]
    if archive is not None:
        drafter.sources.append(Archived(partial(_continuations, archive), archive.place))
    drafter.sources.append(Realigned())
    return drafter


def draft_model_options(
    config: Config, options: LlamaOptions, *, go_on: Callable[[], bool], beside: int = 0
) -> tuple[Path, LlamaOptions] | None:
    """The draft model's file and how to load it, tried out in a child process; None when none is wanted. `beside`:
    bytes that the served model, with these `options`, will take. Blocks.

    Raises ModelError when there is no such model, or it does not run here.
    """
    if not (config.speculation.enabled and config.speculation.draft_model):
        return None
    path = resolve(config.speculation.draft_model)
    mine = evolve(
        options, num_cells=options.num_cells // 2, num_seqs=config.engine.slots, max_rows=DRAFT_ROWS, max_sampled=1,
        extra_buffers=config.engine.extra_buffers != "off",
    )  # fmt: skip
    cure = "take a smaller speculation.draft_model, or none"
    return path, try_out(config, path, mine, go_on=go_on, beside=beside, cure=cure)


def load_draft_model(found: tuple[Path, LlamaOptions], served: Engine, scheduler: Scheduler) -> DraftModel:
    """For the decode thread. Raises ModelError when the file cannot be loaded, or speaks of other tokens."""
    path, options = found
    engine = LlamaEngine(path, options)
    if engine.info.whole_state:
        engine.close()
        raise ModelError(
            f"speculation.draft_model: {path.name} has a recurrent state, from which wrong guesses cannot be taken"
            " back; choose an attention model"
        )
    size = served.info.vocab_size
    is_same = engine.info.vocab_size == size and tokenizer_fingerprint(
        engine.vocabulary, size
    ) == tokenizer_fingerprint(served.vocabulary, size)
    if not is_same:
        engine.close()
        raise ModelError(
            f"speculation.draft_model: {path.name} has not the vocabulary of the served model; choose a smaller model "
            "of the same family, or leave it empty"
        )
    log.info("draft model: %s", engine.info.description)
    return DraftModel(engine, scheduler.cost, lambda: len(scheduler.running))


def outlook(cost: StepCost) -> str:
    """What steps cost here, in a sentence: why drafts will be used much or little."""
    return f"speculation on, each draft as long as it pays: {draft_prices(cost)}"


def why_off(engine: Engine) -> str:
    if engine.info.whole_state:
        return "this model has a recurrent state, from which a wrong guess cannot be taken back"
    return "speculation.enabled is false"


def draft_prices(cost: StepCost) -> str:
    """For one user, by the steps measured lately."""
    return ", ".join(_price(rows, cost.seconds(rows) / cost.seconds(1)) for rows in SHOWN_ROWS)


def _price(rows: int, steps: float) -> str:
    share = max(0.0, steps - 1) / (rows - 1)
    pays = f"pays from {share:.0%} of it right" if share <= 1 else "does not pay"
    return f"{rows} rows cost {steps:.1f} steps (a draft of {rows - 1} {pays})"


def _continuations(archive: Archive, tail: Sequence[int], namespace: str) -> list[Site]:
    return archive.continuations(tail, namespace=namespace, most=MOST)
