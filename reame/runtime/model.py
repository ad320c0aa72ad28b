"""From the config to a running engine: which file, does it run here, with how many threads and cells."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from reame.catalog import split_parts
from reame.config_template import load_template
from reame.constraint.compiler import ConstraintCompiler
from reame.constraint.tokens import tokens_of
from reame.core.chat import ChatTemplate
from reame.core.compaction import LONGEST_MOVE
from reame.core.healing import Pieces
from reame.core.limits import Limits
from reame.core.scheduler import Scheduler
from reame.core.slots import Slots
from reame.doctor.words import count
from reame.engine import kernels
from reame.engine.canary import check
from reame.engine.llama import LlamaOptions
from reame.errors import ConfigError, ModelError
from reame.host.cpu import Threads, cpu_share, default_threads
from reame.host.features import check_build, cpu_features, llama_library
from reame.runtime.fit import fitted
from reame.runtime.logs import event as log_event
from reame.runtime.prompts import ServedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from reame.config import Config
    from reame.doctor.profile import Profile
    from reame.engine.base import Engine
    from reame.host.cpu import CpuShare

log = logging.getLogger(__name__)

MAX_SAMPLED = 128
"""Rows of a step that may give logits: vocabulary x 4 bytes each, 78 MB for 152,000 tokens."""


def cache_dir() -> Path:
    """`$REAME_CACHE`, else `$CACHE_DIRECTORY` (systemd's), else `$XDG_CACHE_HOME/reame`, else `~/.cache/reame`."""
    for name, below in (("REAME_CACHE", ""), ("CACHE_DIRECTORY", ""), ("XDG_CACHE_HOME", "reame")):
        if os.environ.get(name):
            return Path(os.environ[name]) / below
    home = os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ConfigError("there is no home directory to keep things in: set REAME_CACHE to a directory")
    return Path(home) / ".cache" / "reame"


def options_for(config: Config, profile: Profile | None = None, *, trained: int = 0) -> LlamaOptions:
    """The engine's options, with everything that the config leaves open decided for this machine and a model that was
    `trained` for so many tokens (0: not known).

    Threads that the doctor measured win over the quick choice, as far as quota and affinity still allow them.
    """
    engine = config.engine
    threads, prefill_threads = engine.threads, engine.prefill_threads
    if not threads:
        choice = measured_threads(profile, cpu_share()) if profile else default_threads(cpu_share())
        threads, prefill_threads = choice.value, prefill_threads or choice.prefill
        log.info("%s", choice.reason)
    return LlamaOptions(
        num_cells=engine.cells or 2 * min(engine.context, trained or engine.context),
        num_seqs=engine.slots + engine.residents,
        max_rows=max(engine.batch_rows, engine.slots),
        max_sampled=_max_sampled(config),
        threads=threads,
        prefill_threads=prefill_threads or threads,
        kv_type=engine.kv_type,
        flash_attention=engine.flash_attention,
        mmap=config.model.mmap,
        mlock=config.model.mlock,
        extra_buffers=engine.extra_buffers != "off",
        exact=engine.exact,
        own_kernels=engine.own_kernels and kernels.available(),
        spin_count=engine.spin_count,
    )


def measured_threads(profile: Profile, share: CpuShare) -> Threads:
    if max(profile.threads, profile.prefill_threads) > share.most_threads:
        return default_threads(share)
    why = f"{count(profile.threads, 'thread')}: the doctor found this the fastest here"
    return Threads(profile.threads, why, profile.prefill_threads)


def try_out(
    config: Config, path: Path, options: LlamaOptions, *, go_on: Callable[[], bool], beside: int = 0, cure: str = ""
) -> LlamaOptions:
    """What a child process found out about the model on this machine. Blocks for seconds the first time, but not for
    long once `go_on` says no. `beside`, `cure`: see `fitted`.

    Raises ModelError when it does not run here, or was given up.
    """
    check_build(Path(sys.prefix) / "set-up.json", library=llama_library())
    may_switch = config.engine.extra_buffers == "auto"
    options = fitted(path, options, may_switch=may_switch, beside=beside, cure=cure)
    if not config.engine.canary:
        return options
    verdict = check(
        path, options, cache_dir=cache_dir(), parts=split_parts(path), cpu_features=cpu_features(), go_on=go_on
    )
    if options.extra_buffers and not verdict.extra_buffers and config.engine.extra_buffers == "on":
        raise ModelError(f"{verdict.reason}; set engine.extra_buffers to auto or off")
    if verdict.reason:
        log.warning("%s", verdict.reason)
    elif verdict.own_kernels:
        log.info("own kernels for %s weights and attention, as far as the model has them", ", ".join(kernels.KINDS))
    return evolve(options, extra_buffers=verdict.extra_buffers, own_kernels=verdict.own_kernels)


def served_model(config: Config, path: Path, model_id: str, engine: Engine) -> ServedModel:
    """What clients see. The context is the least of the config's, the model's and the cells. Takes half a second with
    a large vocabulary, in any thread."""
    info = engine.info
    context = min(config.engine.context, engine.num_cells, info.context_trained or config.engine.context)
    if context < config.engine.context:
        log.warning("context: %d tokens, all that the model was trained for, not %d", context, config.engine.context)
    build = f"{path.name}/{info.size_bytes}/{info.description}/{config.engine}"
    log_event(
        log, "model", id=model_id, kind=info.description, megabytes=info.size_bytes >> 20, context=context,
        cells=engine.num_cells, slots=config.engine.slots,
    )  # fmt: skip
    return ServedModel(
        id=model_id,
        context=context,
        info=info,
        fingerprint="fp_" + hashlib.blake2b(build.encode(), digest_size=6).hexdigest(),
        vocabulary=engine.vocabulary,
        template=_template(config, engine),
        pieces=Pieces(engine.vocabulary.piece, info.vocab_size, ends=info.eog_tokens),
        constraints=ConstraintCompiler(partial(tokens_of, engine.vocabulary, info.vocab_size, info.eog_tokens)),
    )


def new_scheduler(config: Config, engine: Engine, block_tokens: int) -> Scheduler:
    limits = Limits(
        max_running=config.engine.slots,
        max_rows=engine.max_rows,
        max_sampled=_max_sampled(config),
        reserve=config.scheduler.reserve_tokens,
        longest_move=min(LONGEST_MOVE, engine.info.sliding_window or LONGEST_MOVE),
        step_seconds=config.scheduler.step_ms / 1e3,
        slowdown=config.scheduler.background_slowdown,
    )
    slots = Slots(engine.num_cells, engine.num_seqs, whole_state=engine.info.whole_state)
    return Scheduler(
        slots,
        limits,
        piece=engine.vocabulary.piece,
        eog_tokens=engine.info.eog_tokens,
        block_tokens=block_tokens,
    )


def _max_sampled(config: Config) -> int:
    """At least one row for each running sequence."""
    return max(MAX_SAMPLED, config.engine.slots)


def _template(config: Config, engine: Engine) -> ChatTemplate | None:
    """The operator's, which must be right, else the model's own, which may be missing or broken: then there are no
    chats, and texts are continued all the same."""
    info = engine.info
    if config.model.chat_template:
        source = load_template(config.model.chat_template)
        return ChatTemplate(source, bos_text=info.bos_text, eos_text=info.eos_text)
    why = "the model has no chat template"
    if info.chat_template is not None:
        try:
            return ChatTemplate(info.chat_template, bos_text=info.bos_text, eos_text=info.eos_text)
        except ModelError as error:
            why = str(error)
    log.warning("%s: /v1/chat/completions answers 400 (set model.chat_template)", why)
    return None
