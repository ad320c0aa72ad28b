"""What is written under a schema validates, for schemas that nobody thought of: random ones, and random bytes of those
that the grammar allows. `scripts/drill schemas` plays many more."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer

from reame.constraint.fault import ConstraintFault
from reame.constraint.grammar import _checked, _schema_text

NUM_SCHEMAS = int(os.environ.get("REAME_RANDOM_SCHEMAS", "600"))
TOKENIZER = LLTokenizer("byte")
WALKS = 6
LONGEST = 300
PATTERNS = (
    *("^[a-c]{1,3}$", "[0-9]", '^[^"]*$', "^(a|b)*$", r"^\S+$", "x$", "^é?[^x]$", r"^\d{2}-\d{2}$", "^.{2,4}$"),
    *("[^a-z]", "^$", "ab|cd", "(?i)^[^b]c?$", r"^[^\\/:*?]+$", r"^[^ -~]{1,2}$", r"^[\w.-]+@[\w-]+$"),
)
VALUES = (1, 2, "a", "b", None, True, 1.5, [1], {"a": 1}, 'é"', -3, [1, 2], {"k": "v"})


class Schemas:
    """Draws schemas of few levels; some of them let nothing through."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def draw(self, level: int = 0) -> dict[str, Any]:
        simple = [self._number, self._text, self._listed, lambda _: {"type": self._random.choice(["boolean", "null"])}]
        nested = [self._array, self._object, self._object, self._combined, lambda _: {"$ref": "#/$defs/d"}]
        return self._random.choice(simple if level > 2 else simple + nested)(level)

    def _some(self, chance: float, keyword: str, *values: Any) -> dict[str, Any]:
        return {keyword: self._random.choice(values)} if self._random.random() < chance else {}

    def _number(self, _: int) -> dict[str, Any]:
        return {
            "type": self._random.choice(["integer", "number", ["integer", "null"]]),
            **self._some(0.5, "minimum", -5, 0, 1, 2.5, -1.5, 10),
            **self._some(0.4, "maximum", 0, 3, 7.5, 100, 12),
            **self._some(0.2, "exclusiveMinimum", -3, 0, 2.5),
            **self._some(0.2, "exclusiveMaximum", 5, 9.5, 100),
            **self._some(0.3, "multipleOf", 1, 2, 3, 5, 0.5, 10),
        }

    def _text(self, _: int) -> dict[str, Any]:
        formats = ("date", "time", "date-time", "uuid", "ipv4", "ipv6", "email", "hostname", "duration")
        shape = self._some(0.6, "pattern", *PATTERNS) or self._some(0.3, "format", *formats)
        lengths = self._some(0.4, "minLength", 0, 1, 2, 3) | self._some(0.6, "maxLength", 1, 2, 4, 8)
        return {"type": "string", **shape, **lengths}

    def _listed(self, _: int) -> dict[str, Any]:
        if self._random.random() < 0.3:
            return {"const": self._random.choice(VALUES)}
        listed = self._random.sample(VALUES, self._random.randint(1, 4))
        return {"enum": listed, **self._some(0.2, "type", "string", "integer", ["integer", "string"])}

    def _array(self, level: int) -> dict[str, Any]:
        first = [self.draw(level + 1) for _ in range(self._random.randint(0, 2))]
        return {
            "type": "array",
            "maxItems": self._random.randint(1, 3),
            **self._some(0.6, "items", self.draw(level + 1), False),
            **self._some(0.4, "minItems", 0, 1, 2),
            **({"prefixItems": first} if first else {}),
        }

    def _object(self, level: int) -> dict[str, Any]:
        names = self._random.sample(["a", "b", "ab", "é", "x y", 'q"', "zz"], self._random.randint(0, 4))
        described = names[: self._random.randint(0, len(names))]
        return {
            "type": "object",
            "properties": {name: self.draw(level + 1) for name in described},
            **self._some(0.6, "required", names, names[:1], names[::-1]),
            **self._some(0.3, "additionalProperties", True, False, self.draw(level + 1)),
            **self._some(0.2, "patternProperties", *({key: self.draw(level + 1)} for key in ("^a", "b$", "^x-"))),
            **self._some(0.15, "minProperties", 1),
            **self._some(0.1, "maxProperties", 1),
        }

    def _combined(self, level: int) -> dict[str, Any]:
        keyword = self._random.choice(["anyOf", "oneOf", "allOf"])
        beside = self.draw(level + 2) if self._random.random() < 0.3 else {}
        return {**beside, keyword: [self.draw(level + 1) for _ in range(self._random.randint(1, 2))]}


def written(grammar: str, random: Random) -> bytes | None:
    """Allowed bytes until the answer may end; None when it takes too long."""
    matcher, answer = LLMatcher(TOKENIZER, grammar, log_level=0), bytearray()
    while len(answer) < LONGEST and not matcher.is_stopped():
        if matcher.is_accepting() and random.random() < 0.6:
            return bytes(answer)
        mask = matcher.compute_logit_bias()[:256]
        allowed = [byte for byte in range(256) if mask[byte]]
        if not allowed:
            assert matcher.is_accepting(), "a dead end"
            return bytes(answer)
        closing = [byte for byte in allowed if byte in b'"}],']
        byte = random.choice(closing if closing and random.random() < 0.5 else allowed)
        assert matcher.consume_token(byte)
        answer.append(byte)
    return bytes(answer) if matcher.is_stopped() and not matcher.is_error() else None


@pytest.mark.parametrize("part", range(4))
def test_every_answer_validates(part: int) -> None:
    num_answers = num_refused = 0
    for seed in range(part, NUM_SCHEMAS, 4):
        random = Random(seed)
        schemas = Schemas(random)
        schema = {**schemas.draw(), "$defs": {"d": schemas.draw(3)}}
        try:
            grammar = _schema_text(_checked(schema, TOKENIZER))
        except ConstraintFault:
            num_refused += 1
            continue
        validator = Draft202012Validator(schema)
        for answer in filter(None, (written(grammar, random) for _ in range(WALKS))):
            validator.validate(json.loads(answer))
            num_answers += 1
    assert num_answers > NUM_SCHEMAS / 4  # more of them than schemas
    assert num_refused < NUM_SCHEMAS / 8
