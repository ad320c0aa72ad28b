"""Answers that are labels, with the real small model's vocabulary: each is written in one way, and nothing else is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest
from walking import Walker, of_schema

from reame.constraint.labels import LabelMatcher
from reame.core.constraint import Constraint
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.constraint.compiler import ConstraintCompiler
    from reame.constraint.tokens import Tokens
    from reame.engine.base import Vocabulary

LABELS = ["red", "reddish", " red", "Rosso è bello", "日本語 👩‍👩‍👧", "a\nb", '"quoted" \\', "<|im_end|>", "or not"]
FIELD = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}


def choice(labels: list[str]) -> Constraint:
    return Constraint("choice", json.dumps(labels))


def cut(vocabulary: Vocabulary, text: str) -> list[int]:
    return vocabulary.tokenize(text, add_special=False, parse_special=False)


def test_walks_write_each_label_in_its_own_tokens(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary
) -> None:
    walker, grammar = Walker(tokens, vocabulary.piece), compiler.compile(choice(LABELS))
    walks = [walker.walk(grammar.matcher(), seed) for seed in range(200)]
    assert all(walk.ended for walk in walks)
    assert {walk.text.decode() for walk in walks} == set(LABELS)
    assert {walk.tokens for walk in walks} == {tuple(cut(vocabulary, label)) for label in LABELS}


def test_an_answer_may_end_where_a_label_does(
    compiler: ConstraintCompiler, tokens: Tokens, vocabulary: Vocabulary
) -> None:
    matcher = compiler.matcher(choice(["red", "red, or not"]))
    assert not matcher.mask()[tokens.ends].any()
    assert matcher.forced() == tuple(cut(vocabulary, "red"))
    for token in matcher.forced():
        matcher.consume(token)
    assert matcher.mask()[tokens.ends].all()
    further = cut(vocabulary, "red, or not")[1:]
    assert np.flatnonzero(matcher.mask() & ~tokens.ends).tolist() == further[:1]
    assert not matcher.is_over
    assert (matcher.forced(), matcher.guess()) == ((), ())
    assert matcher.legal_prefix([*further, *further]) == len(further)
    assert matcher.legal_prefix(cut(vocabulary, "x")) == 0
    matcher.consume(further[0])
    assert matcher.forced() == tuple(further[1:])
    for token in further[1:]:
        matcher.consume(token)
    assert matcher.is_over
    assert (matcher.forced(), matcher.mask().tolist()) == ((), tokens.ends.tolist())
    with pytest.raises(RequestError):
        matcher.consume(further[0])


def test_which_schemas_are_lists_of_labels(compiler: ConstraintCompiler) -> None:
    assert isinstance(compiler.matcher(of_schema({"enum": ["red", None]})), LabelMatcher)
    assert isinstance(compiler.matcher(of_schema(FIELD)), LabelMatcher)
    assert not isinstance(compiler.matcher(of_schema({"enum": ["red", 1.5]})), LabelMatcher)
    with pytest.raises(RequestError) as caught:
        compiler.compile(of_schema(FIELD | {"$defs": {"other": {"not": {}}}}))
    assert caught.value.status == 400, "a schema is checked all the same"


def test_long_labels_take_no_time(compiler: ConstraintCompiler) -> None:
    labels = ["ab" * 60_000 + "c", "ab" * 60_000 + "d"]
    grammar = compiler.compile(choice(labels))
    assert grammar.labels is not None
    assert len(grammar.labels.forks()) == 1
    assert len(grammar.matcher().forced()) > 1000
