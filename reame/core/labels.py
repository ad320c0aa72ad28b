"""Labels: which answers there are when a constraint lets nothing but one of a list through, and how probable each of
them is. Pure.

Every label is written in one way only: in the tokens that it is cut into when it stands alone. These make a tree, whose
forks are the only places where something is drawn, so an answer's probability is the product of those of the ways it
takes at its forks, each among the ways that there are. This is how answers are drawn (at temperature 1, without any
other rule), not an estimate of it.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from math import exp
from typing import TYPE_CHECKING, Any

from attrs import frozen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from reame.core.constraint import Constraint

MOST_RATED = 1000
"""Labels whose probabilities are told at most: a row is computed for every fork."""

Label = str | int | bool | None
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "$schema", "$id", "$comment"})
_OF_ONE_FIELD = _ANNOTATIONS | {"type", "properties", "required", "additionalProperties", "$defs", "definitions"}


@frozen
class LabelChance:
    """A label, as a JSON value, and its probability."""

    label: Label
    probability: float


def labels_of(constraint: Constraint | None) -> dict[str, Label]:
    """Text of each answer -> its label, where every answer is one of a list: a `choice`, a schema that is one enum, or
    that of an object with one such field. Empty for all others."""
    if constraint is None or constraint.kind not in ("choice", "json_schema"):
        return {}
    read = json.loads(constraint.source)
    return {label: label for label in read} if constraint.kind == "choice" else _of_schema(read)


def _of_schema(schema: Any) -> dict[str, Label]:
    if not isinstance(schema, dict):
        return {}
    if values := _enum(schema):
        return {_text(value): value for value in values}
    fields = schema.get("properties")
    if not isinstance(fields, dict) or len(fields) != 1 or not schema.keys() <= _OF_ONE_FIELD:
        return {}
    (name, field), closed = next(iter(fields.items())), not schema.get("additionalProperties")
    if schema.get("type") != "object" or schema.get("required") != [name] or not closed:
        return {}
    return {f"{{{_text(name)}:{_text(value)}}}": value for value in _enum(_referred(schema, field))}


def _referred(root: dict[str, Any], schema: Any) -> Any:
    """What a lone `$ref` to a definition leads to, as some clients write an enum."""
    match schema:
        case {"$ref": str(reference)} if schema.keys() <= _ANNOTATIONS | {"$ref"}:
            _, place, name = reference.split("/") if reference.count("/") == 2 else ("", "", "")
            holder = root.get(place) if place in ("$defs", "definitions") else None
            return holder.get(name) if isinstance(holder, dict) else None
    return schema


def _enum(schema: Any) -> list[Label]:
    """The values of a schema that says nothing else; none when some are no labels, or not of the schema's type."""
    if not isinstance(schema, dict) or not schema.keys() <= _ANNOTATIONS | {"enum", "type"}:
        return []
    values, kind = schema.get("enum"), schema.get("type")
    is_label: dict[Any, type[Any]] = {None: object, "string": str, "integer": int, "boolean": bool}
    if not isinstance(values, list) or not isinstance(kind, str | None) or kind not in is_label:
        return []
    fits = all(
        (value is None or isinstance(value, str | int))
        and isinstance(value, is_label[kind])
        and not (kind == "integer" and isinstance(value, bool))
        for value in values
    )
    return values if fits else []


def _text(value: Label) -> str:
    return json.dumps(value, ensure_ascii=False)


@frozen
class Place:
    """Where an answer has come to: at one of the labels start..stop-1 in the tree's order, which all begin with the
    same `depth` tokens."""

    start: int
    stop: int
    depth: int


class LabelTree:
    """The labels in the order of their tokens. Bound: eight bytes a token, and what a label takes itself."""

    def __init__(self, labels: Iterable[Label], tokens: Iterable[tuple[int, ...]]) -> None:
        """`tokens` parallel `labels`, all different."""
        self._labels = list(labels)
        given = list(tokens)
        self._order = sorted(range(len(given)), key=given.__getitem__)
        self._tokens = [given[index] for index in self._order]
        self.root = Place(0, len(given), 0)

    def __len__(self) -> int:
        return len(self._labels)

    @property
    def depth(self) -> int:
        """Tokens of the longest label."""
        return max(map(len, self._tokens))

    def path(self, place: Place) -> tuple[int, ...]:
        """The tokens that lead there."""
        return self._tokens[place.start][: place.depth]

    def may_end(self, place: Place) -> bool:
        """One of the labels is complete: the first, as it is the shortest."""
        return len(self._tokens[place.start]) == place.depth

    def is_over(self, place: Place) -> bool:
        return place.stop - place.start == 1 and self.may_end(place)

    def ways(self, place: Place) -> list[tuple[int, Place]]:
        """Each token that may come next, and where it leads."""
        found, start, depth = [], place.start + self.may_end(place), place.depth
        while start < place.stop:
            token = self._tokens[start][depth]
            stop = bisect_right(self._tokens, token, start, place.stop, key=lambda tokens: tokens[depth])
            found.append((token, Place(start, stop, depth + 1)))
            start = stop
        return found

    def step(self, place: Place, token: int) -> Place | None:
        """None: the token may not come next."""
        return next((after for way, after in self.ways(place) if way == token), None)

    def forced(self, place: Place) -> tuple[int, ...]:
        """What must come next, up to the next fork: what the first and the last have in common."""
        first, last = self._tokens[place.start], self._tokens[place.stop - 1]
        end = place.depth
        while end < min(len(first), len(last)) and first[end] == last[end]:
            end += 1
        return first[place.depth : end]

    def forks(self) -> list[Place]:
        """The places where there is a choice, also that of ending; a place comes before those that it leads to."""
        found, open_places = [], [self.root]
        for place in open_places:
            fork = Place(place.start, place.stop, place.depth + len(self.forced(place)))
            if fork.stop - fork.start > 1:
                found.append(fork)
                open_places += [after for _, after in self.ways(fork)]
        return found

    def chances(self, odds: Sequence[Mapping[int, float]], ends: Collection[int]) -> tuple[LabelChance, ...]:
        """The likeliest first. `odds`: for each of `forks`, token -> natural logarithm of its probability; `ends` are
        the tokens that end an answer."""
        chances = [1.0] * len(self)
        for fork, logprobs in zip(self.forks(), odds, strict=True):
            ranges = [(after.start, after.stop, _chance(logprobs, (token,))) for token, after in self.ways(fork)]
            if self.may_end(fork):
                ranges.append((fork.start, fork.start + 1, _chance(logprobs, ends)))
            whole = sum(chance for _, _, chance in ranges)
            for start, stop, chance in ranges:
                chances[start:stop] = [each * (chance / whole) for each in chances[start:stop]]
        by_label = sorted(zip(self._order, chances, strict=True))
        told = (LabelChance(self._labels[index], chance) for index, chance in by_label)
        return tuple(sorted(told, key=lambda each: -each.probability))


def _chance(logprobs: Mapping[int, float], tokens: Iterable[int]) -> float:
    return sum(exp(logprobs[token]) for token in tokens if token in logprobs)
