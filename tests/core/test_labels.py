"""The tree of labels: what may come next in it, and how probable each label is."""

from __future__ import annotations

import json
from math import exp, log
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.constraint import Constraint
from reame.core.labels import LabelTree, Place, labels_of

END = 0
NAMES = ["ab", "abc", "abd", "x"]
TREE = LabelTree(NAMES, [(1, 2), (1, 2, 3), (1, 2, 4), (9,)])
LISTS = st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=6).map(tuple), min_size=1, max_size=12, unique=True)


def at(tree: LabelTree, *tokens: int) -> Place:
    place = tree.root
    for token in tokens:
        after = tree.step(place, token)
        assert after is not None
        place = after
    return place


def test_what_may_come_next() -> None:
    assert [token for token, _ in TREE.ways(TREE.root)] == [1, 9]
    assert TREE.step(TREE.root, 2) is None
    assert TREE.forced(TREE.root) == ()
    assert TREE.forced(at(TREE, 1)) == (2,)
    assert [token for token, _ in TREE.ways(at(TREE, 1, 2))] == [3, 4]
    assert [TREE.may_end(at(TREE, *tokens)) for tokens in ((1,), (1, 2), (1, 2, 4))] == [False, True, True]
    assert not TREE.is_over(at(TREE, 1, 2))
    assert TREE.is_over(at(TREE, 9))
    assert TREE.is_over(at(TREE, 1, 2, 4))


def test_the_forks_are_where_something_is_drawn() -> None:
    assert [TREE.path(fork) for fork in TREE.forks()] == [(), (1, 2)]
    assert LabelTree(["a"], [(5, 6)]).forks() == []
    assert LabelTree(["a", "b"], [(5, 6), (5, 7)]).forks() == [Place(0, 2, 1)]


def test_a_labels_probability_is_the_product_at_its_forks() -> None:
    root = {1: log(0.8), 9: log(0.2)}
    inner = {3: log(0.5), 4: log(0.1), END: log(0.3), 7: log(0.1)}
    told = {each.label: each.probability for each in TREE.chances([root, inner], {END, 7})}
    assert told == pytest.approx({"abc": 0.4, "ab": 0.32, "x": 0.2, "abd": 0.08})
    assert list(told) == ["abc", "ab", "x", "abd"], "the likeliest first"


@settings(max_examples=60)
@given(LISTS, st.randoms(use_true_random=False))
def test_probabilities_are_those_of_walks_and_sum_to_one(tokens: list[tuple[int, ...]], random: Any) -> None:
    tree = LabelTree(list(range(len(tokens))), tokens)
    odds = [{token: log(random.uniform(0.01, 1)) for token in range(5)} for _ in tree.forks()]
    told = {each.label: each.probability for each in tree.chances(odds, {END})}
    assert sum(told.values()) == pytest.approx(1, abs=1e-9)
    at_fork = {tree.path(fork): logprobs for fork, logprobs in zip(tree.forks(), odds, strict=True)}
    for label, own in enumerate(tokens):
        chance = 1.0
        for path, logprobs in at_fork.items():
            if path == own[: len(path)]:
                there = [other for other in tokens if other[: len(path)] == path]
                ways = {(*other, END)[len(path)] for other in there}
                chance *= exp(logprobs[(*own, END)[len(path)]]) / sum(exp(logprobs[each]) for each in ways)
        assert told[label] == pytest.approx(chance)


@settings(max_examples=60)
@given(LISTS)
def test_forced_tokens_and_ways_write_every_label_and_nothing_else(tokens: list[tuple[int, ...]]) -> None:
    tree = LabelTree(range(len(tokens)), tokens)
    found, places = set(), [(tree.root, ())]
    for place, path in places:
        assert tree.path(place) == path
        if tree.may_end(place):
            found.add(path)
        forced = tree.forced(place)
        assert not forced or [token for token, _ in tree.ways(place)] == [forced[0]]
        places += [(after, (*path, token)) for token, after in tree.ways(place)]
    assert found == set(tokens)


def schema(value: Any) -> Constraint:
    return Constraint("json_schema", json.dumps(value))


FIELD = {"type": "object", "properties": {"mood": {"enum": ["good", None]}}, "required": ["mood"]}

REFERRED = {"$defs": {"M": {"enum": ["x"], "type": "string"}}, "properties": {"mood": {"$ref": "#/$defs/M"}}}


@pytest.mark.parametrize(
    ("constraint", "labels"),
    [
        (Constraint("choice", '["yes","no"]'), {"yes": "yes", "no": "no"}),
        (schema({"enum": ["a\"b", 7, True, None]}), {'"a\\"b"': 'a"b', "7": 7, "true": True, "null": None}),
        (schema({"type": "string", "enum": ["é"], "title": "T"}), {'"é"': "é"}),
        (schema(FIELD), {'{"mood":"good"}': "good", '{"mood":null}': None}),
        (schema(FIELD | REFERRED), {'{"mood":"x"}': "x"}),
        (schema({"type": "string", "enum": ["a", 1]}), {}),
        (schema({"type": "integer", "enum": [1, True]}), {}),
        (schema({"enum": [1.5, "a"]}), {}),
        (schema({"enum": ["a", "bb"], "maxLength": 1}), {}),
        (schema({"type": ["string", "null"], "enum": ["a"]}), {}),
        (schema(FIELD | {"additionalProperties": True}), {}),
        (schema(FIELD | {"required": []}), {}),
        (schema(FIELD | {"properties": {"mood": {"$ref": "#/$defs/none"}}}), {}),
        (schema(FIELD | {"properties": {"mood": {"enum": ["a"]}, "why": {"type": "string"}}}), {}),
        (schema({"type": {}, "enum": [{}, []]}), {}),
        (schema({"type": {}, "enum": ["a"]}), {}),
        (schema(True), {}),
        (Constraint("json_object"), {}),
        (Constraint("regex", "yes|no"), {}),
        (None, {}),
    ],
)  # fmt: skip
def test_which_constraints_are_lists_of_labels(constraint: Constraint | None, labels: dict[str, Any]) -> None:
    assert labels_of(constraint) == labels
