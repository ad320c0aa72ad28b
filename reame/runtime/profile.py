"""What `reame doctor --write` measured with this model on this machine, for the daemon to start from."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from reame.catalog import split_parts
from reame.doctor import profile as profiles
from reame.memory.fingerprint import model_digest
from reame.runtime.model import cache_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reame.core.cost import StepCost
    from reame.doctor.profile import Profile
    from reame.engine.llama import LlamaOptions

log = logging.getLogger(__name__)


def profile_for(path: Path, go_on: Callable[[], bool] = lambda: True) -> Profile | None:
    """Of exactly this CPU, model and build. May read the whole model, so call it in a thread; ModelError soon after
    `go_on` says no.

    Of other profiles, one line says why they are not used. ModelError when the model cannot be read.
    """
    cache = cache_dir()
    if not profiles.exist(cache):
        return None
    return profiles.load(cache, profiles.identity(model_digest(split_parts(path), cache, go_on), path.stem))


def seed(cost: StepCost, profile: Profile | None, options: LlamaOptions) -> bool:
    """T(rows), and what blocks from the disk cost, start from what was measured, when it was measured with these
    options. Whether they do."""
    if profile is None:
        return False
    if not profile.holds_for(options):
        log.info("the doctor's profile was measured with other settings: step times are learned anew")
        return False
    cost.seed(profile.step_seconds)
    if profile.restore_seconds:
        cost.seed_disk(load=profile.load_seconds - profile.restore_seconds, restore=profile.restore_seconds)
    log.info("step times start from the doctor's profile")
    return True
