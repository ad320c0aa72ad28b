"""The bounds within which the scheduler works."""

from __future__ import annotations

from attrs import frozen

from reame.core.compaction import LONGEST_MOVE


@frozen(kw_only=True)
class Limits:
    """`max_running` sequences at once; `max_rows` rows a step, `max_sampled` of them with logits (both at least one for
    each running sequence).

    `reserve`: cells promised to an answer at first. `min_wait`: tokens of a prefix, being computed by another, that are
    worth waiting for. `min_chunk`: rows that a prefill gets in any step, give or take half a `row_group`: what kernels
    take at once (a step of 16 rows of Q4_K weights takes 0.34 s here, of 17 rows 0.38 s, of 32 rows 0.62 s). Garbage is
    compacted from `min_garbage` cells on, in pieces of `longest_move` tokens. A resident that the disk has leaves its
    cells when `rent_rows` rows were computed since it was last used, or are known to come. A step should take about
    `step_seconds` when somebody's answer is decoded, `lone_seconds` when somebody's prompt is all there is, or nobody
    has come for long (that bounds how long a newcomer or a cancel waits), else `prefill_seconds`: each reads the
    weights once, which is the same 50 ms for 32 rows of Qwen2.5-Coder-1.5B (490 ms here) and 96 (1,360 ms). A prompt's
    rows fill whole groups, so it may be half a group more or less. Background work may make a step with people in it
    longer by the share `slowdown`. A state that cannot be cut is kept every `stride` tokens of a long prompt and every
    `trail` tokens of an answer (`core.checkpoints`).
    """

    max_running: int
    max_rows: int
    max_sampled: int = 128
    reserve: int = 512
    min_wait: int = 16
    min_chunk: int = 16
    row_group: int = 16
    min_garbage: int = 256
    rent_rows: int = 128
    longest_move: int = LONGEST_MOVE
    step_seconds: float = 0.2
    prefill_seconds: float = 0.5
    lone_seconds: float = 1.5
    slowdown: float = 0.05
    stride: int = 512
    trail: int = 64
