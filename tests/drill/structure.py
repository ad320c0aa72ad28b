"""Constrained answers of the real model, at temperatures 0 and 1, over the shapes of JSON Schema's own test suite.

First each shape is asked for with room for one token: what is refused names the place. Then each seed asks for several
of the others, each alone or as a field of an object with others. What ends with `stop` validates
with `jsonschema`; what says `length` has had all the tokens it asked for.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import trio
from _drill import WORDS, arguments, serving, verdict
from attrs import define, field
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from talking import CHAT, connect, say

if TYPE_CHECKING:
    from httpx2 import AsyncClient

USERS = 8
SUITE = Path(__file__).resolve().parents[1] / "constraint" / "official_schemas.json"
Body = dict[str, Any]


def shapes() -> list[Any]:
    """The suite's schemas; those that Python's regular expressions cannot judge are left out."""
    suite: dict[str, list[Any]] = json.loads(SUITE.read_text("utf-8"))
    return [schema for schemas in suite.values() for schema in schemas if "\\\\p" not in json.dumps(schema)]


def wrapped(schemas: list[Any], random: Random) -> Any:
    """An object of up to four fields, unless one of them refers to its own root."""
    some = random.sample(schemas, random.randint(1, 4))
    if any("$ref" in json.dumps(schema) for schema in some):
        return some[0]
    fields = {f"{random.choice(WORDS)}{number}": schema for number, schema in enumerate(some)}
    return {"type": "object", "properties": fields, "required": list(fields)}


def body_of(schema: Any, text: str, room: int, **more: Any) -> Body:
    form = {"type": "json_schema", "json_schema": {"name": "it", "schema": schema}}
    return say(text, room, response_format=form, reame={"answers": False}, **more)


def bodies(every: list[Any], count: int, each: int, room: int) -> list[tuple[Any, Body]]:
    """A schema and what asks for it, for each seed, shape and temperature. All shapes come in turn."""
    made = []
    for seed in range(count):
        random = Random(seed)
        for number in range(each):
            schema = every[(seed * each + number) % len(every)] if number % 2 == 0 else wrapped(every, random)
            text = f"Write JSON about {' '.join(random.choices(WORDS, k=3))}."
            asked = body_of(schema, text, room, seed=seed)
            made += [(schema, asked | {"temperature": temperature}) for temperature in (0, 1)]
    return made


@define
class Drill:
    client: AsyncClient
    todo: list[tuple[Any, Body]]
    ends: Counter[str] = field(factory=Counter)
    accepted: list[Any] = field(factory=list)
    faults: list[str] = field(factory=list)

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(USERS):
                nursery.start_soon(self._user)

    async def _user(self) -> None:
        while self.todo:
            schema, body = self.todo.pop()
            response = await self.client.post(CHAT, json=body)
            got = response.json()
            refused = "error" in got
            fault = self._refused(response.status_code, got) if refused else self._judge(schema, body, got)
            if fault:
                self.faults.append(f"{json.dumps(schema)} {body.get('seed')} {body['temperature']}: {fault}")
            if not refused:
                self.accepted.append(schema)

    def _refused(self, status: int, got: Body) -> str:
        self.ends["refused"] += 1
        param = got["error"]["param"] or ""
        is_clear = status == 400 and param.startswith("response_format.json_schema.schema")
        return "" if is_clear else f"{status} {got}"

    def _judge(self, schema: Any, body: Body, got: Body) -> str:
        (choice,) = got["choices"]
        self.ends[choice["finish_reason"]] += 1
        text = choice["message"]["content"]
        if choice["finish_reason"] == "length":
            is_full = got["usage"]["completion_tokens"] == body["max_tokens"]
            return "" if is_full else f"cut early: {text!r}"
        if choice["finish_reason"] != "stop":
            return f"ended with {choice['finish_reason']}: {text!r}"
        try:
            Draft202012Validator.check_schema(schema)
            Draft202012Validator(schema).validate(json.loads(text))
        except SchemaError as error:
            return f"accepted, and is no schema: {error.message}"
        except (ValueError, ValidationError) as error:
            return f"{text!r}: {error}"
        return ""


async def main() -> int:
    options = arguments(__doc__, count=100, each=6, room=96, step=1)
    with serving(engine={"slots": USERS, "context": 1024}) as daemon:
        async with connect(daemon) as client:
            drill = Drill(client, [(schema, body_of(schema, "JSON?", 1)) for schema in shapes()[:: options.step]])
            await drill.run()
            told = f"{sum(drill.ends.values())} shapes asked for, {drill.ends['refused']} refused"
            drill.ends.clear()
            drill.todo = bodies(drill.accepted.copy(), options.count, options.each, options.room)
            await drill.run()
    print(f"{told}; {sum(drill.ends.values())} answers of the others: {dict(drill.ends)}")
    if not drill.ends["stop"]:
        drill.faults.append("nothing came to its end")
    return verdict(drill.faults)


if __name__ == "__main__":
    sys.exit(trio.run(main))
