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


GREEDY = Sampling(temperature=0)


def read(engine: LlamaEngine, text: str) -> tuple[int, ...]:
    """Its tokens, which are all that the engine then holds."""
    prompt = tuple(engine.vocabulary.tokenize(text, add_special=True, parse_special=False))
    engine.trim(0, 0)
    engine.compact(())
    engine.decode([Row(token, place, 0, place == len(prompt) - 1) for place, token in enumerate(prompt)])
    return prompt


def drawing(engine: LlamaEngine, compiler: ConstraintCompiler, banned: tuple[int, ...]) -> Drawing:
    prompt = read(engine, "Is it red?")
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


def test_a_banned_token_is_not_forced_either(engine: LlamaEngine, compiler: ConstraintCompiler) -> None:
    constraint = Constraint("regex", "Paris is nice")
    forced = compiler.matcher(constraint).forced()
    assert len(forced) > 1
    for banned in forced[:2]:
        with pytest.raises(RequestError, match="logit_bias"):
            written_without(engine, compiler, constraint, (banned,))
    assert written_without(engine, compiler, constraint, (5,))[: len(forced)] == list(forced)


def written_without(
    engine: LlamaEngine, compiler: ConstraintCompiler, constraint: Constraint, banned: tuple[int, ...]
) -> list[int]:
    sampling = Sampling(temperature=0, logit_bias=tuple((token, -100.0) for token in banned))
    return answer(engine, compiler, constraint, None, sampling)


PERSON = """{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
"required": ["name", "age"]}"""
CONSTRAINTS = (
    Constraint("regex", "[a-z ]{3,12}(, [0-9]+)?"),
    Constraint("json_schema", PERSON),
    Constraint("choice", '["Paris is nice", "Paris", "London"]'),
)


def answer(
    engine: LlamaEngine,
    compiler: ConstraintCompiler,
    constraint: Constraint,
    top: int | None,
    sampling: Sampling = GREEDY,
) -> list[int]:
    """The greedy one's first tokens."""
    prompt = read(engine, "The capital of France is")
    request = Request(id="r", prompt=prompt, max_tokens=24, sampling=sampling, logprobs=top)
    drawn = Drawing(engine, request, compiler.matcher(constraint))
    row, tokens = last_row(engine), []
    while True:
        new = drawn.verify(row, ()).tokens
        tokens += new
        if drawn.is_over or tokens[-1] in engine.info.eog_tokens or len(tokens) >= request.max_tokens:
            drawn.close()
            return tokens
        place, row = engine.length(0), len(new) - 1
        engine.decode([Row(token, place + i, 0, i == row) for i, token in enumerate(new)])


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda each: each.kind)
def test_a_greedy_answer_is_the_likeliest_of_what_is_allowed(
    engine: LlamaEngine, compiler: ConstraintCompiler, constraint: Constraint
) -> None:
    """The mask of the whole vocabulary is asked for only where the likeliest token is forbidden, or for logprobs."""
    plain = answer(engine, compiler, constraint, None)
    assert plain == answer(engine, compiler, constraint, 0)
    assert len(plain) > 1
