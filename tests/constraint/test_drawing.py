"""Draws under a constraint, with the real model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from reame.core.constraint import Constraint
from reame.core.request import Request, Sampling
from reame.engine.base import Row
from reame.engine.drawing import Drawing
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler
    from reame.engine.llama import LlamaEngine


def drawing(engine: LlamaEngine, compiler: ConstraintCompiler, banned: tuple[int, ...]) -> Drawing:
    prompt = tuple(engine.vocabulary.tokenize("Is it red?", add_special=True, parse_special=False))
    engine.trim(0, 0)
    engine.compact(())
    engine.decode([Row(token, place, 0, place == len(prompt) - 1) for place, token in enumerate(prompt)])
    sampling = Sampling(temperature=0, logit_bias=tuple((token, -100.0) for token in banned))
    request = Request(id="r", prompt=prompt, max_tokens=8, sampling=sampling)
    return Drawing(engine, request, compiler.matcher(Constraint("choice", '["yes","no"]')))


def last_row(engine: LlamaEngine) -> int:
    return engine.length(0) - 1


def test_a_banned_label_leaves_the_other(engine: LlamaEngine, compiler: ConstraintCompiler) -> None:
    free = drawing(engine, compiler, ())
    chosen = free.verify(last_row(engine), ()).tokens[0]
    free.close()
    other = drawing(engine, compiler, (chosen,))
    assert other.verify(last_row(engine), ()).tokens[0] != chosen
    other.close()


def test_a_request_that_bans_all_that_is_allowed_fails(engine: LlamaEngine, compiler: ConstraintCompiler) -> None:
    mask = compiler.matcher(Constraint("choice", '["yes","no"]')).mask()
    banned = drawing(engine, compiler, tuple(map(int, np.flatnonzero(mask))))
    with pytest.raises(RequestError, match="logit_bias"):
        banned.verify(last_row(engine), ())
    banned.close()
