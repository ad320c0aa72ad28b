"""What requests may ask for on this server, whether they come over HTTP or as lines of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reame.api.schema import Limits

if TYPE_CHECKING:
    from reame.config import Config
    from reame.core.request import Sampling
    from reame.runtime.prompts import ServedModel

MOST_CHOICES = 128
"""Answers to one prompt at most, as OpenAI has it."""


def limits_of(config: Config, sampling: Sampling, model: ServedModel | None) -> Limits:
    """`sampling`: of a request that does not say otherwise. `model` None: it is not loaded yet."""
    return Limits(
        sampling=sampling,
        max_n=min(MOST_CHOICES, config.engine.slots + config.scheduler.queue),
        vocab_size=None if model is None else model.info.vocab_size,
        spelled=None if model is None else model.vocabulary.spelled,
        eog_tokens=frozenset() if model is None else model.info.eog_tokens,
        infill_temperature=config.sampling.infill_temperature,
        conclave_candidates=config.conclave.candidates,
        conclave_margin=config.conclave.margin,
    )
