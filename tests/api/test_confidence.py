"""How sure an answer is, on the wire: who asks for it, and where it is told."""

from __future__ import annotations

import json
from math import log
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from scripted import ScriptedIntake, Step, chat_body, finish

from reame.api.schema import Limits, Wanted
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.core.events import Delta, TokenLogprob
from reame.core.labels import LabelChance
from reame.core.request import Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol

    from reame.core.request import Call

LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100)
JSON = {"response_format": {"type": "json_object"}}
CHOICE = {"reame": {"choice": ["yes", "no"]}}
SURE = (LabelChance("no", 0.75), LabelChance("yes", 0.25))
TOLD = [{"label": "no", "probability": 0.75}, {"label": "yes", "probability": 0.25}]


def chat(**fields: Any) -> Wanted:
    return read_chat(json.dumps(chat_body(**fields)).encode(), LIMITS)


def completion(**fields: Any) -> Wanted:
    if "logprobs" in fields:
        fields["logprobs"] = 0
    return read_completion(json.dumps({"prompt": "x"} | fields).encode(), LIMITS)


@pytest.mark.parametrize("read", [chat, completion])
@pytest.mark.parametrize(
    ("fields", "wanted", "tells_fields"),
    [
        ({}, False, False),
        ({"logprobs": True}, False, False),
        (JSON, False, False),
        (JSON | {"logprobs": True}, True, True),
        (JSON | {"reame": {"confidence": True}}, True, True),
        (JSON | {"logprobs": True, "reame": {"confidence": False}}, False, False),
        (CHOICE | {"logprobs": True}, True, False),
        ({"reame": CHOICE["reame"] | {"confidence": True}}, True, False),
        ({"guided_regex": "a+", "logprobs": True}, False, False),
        ({"guided_choice": [f"label {n}" for n in range(1001)], "logprobs": True}, True, False),
        ({"reame": {"confidence": False}}, False, False),
    ],
)
def test_who_asks(read: Any, fields: dict[str, Any], wanted: bool, tells_fields: bool) -> None:
    call = read(**fields).call
    assert (call.confidence, call.tells_fields) == (wanted, tells_fields)
    assert call.logprobs == (0 if "logprobs" in fields else None)
    assert call.confidence_named == bool(fields.get("reame", {}).get("confidence"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"reame": {"confidence": True}}, "needs an answer that is JSON"),
        ({"reame": {"confidence": True, "regex": "a"}}, "needs an answer that is JSON"),
        ({"reame": {"confidence": "yes"}} | JSON, "must be true or false"),
        ({"reame": {"confidence": True, "choice": [f"label {n}" for n in range(1001)]}}, "1000 labels at most"),
    ],
)
def test_what_cannot_be_told(fields: dict[str, Any], message: str) -> None:
    for read in (chat, completion):
        with pytest.raises(RequestError, match=message) as caught:
            read(**fields)
        assert (caught.value.status, caught.value.param) == (400, "reame.confidence")


def extraction(call: Call) -> list[Step]:
    """Choice 1 was cut."""
    pieces = (('{"a":"', 1.0), ("x", 0.5), ('","b":', 1.0), ("7", 0.25), ("}", 1.0))
    tokens = [TokenLogprob(5, piece.encode(), log(chance)) for piece, chance in pieces]
    parts = [tokens[:2], tokens[2:3], tokens[3:]]
    deltas = [Delta(text="".join(t.piece.decode() for t in part), logprobs=tuple(part)) for part in parts]
    steps: list[Step] = [(0, delta) for delta in deltas]
    if call.n == 2:
        steps += [(1, delta) for delta in deltas[:2]]
    return [*steps, *((index, finish()) for index in range(call.n))]


def labelling(call: Call) -> list[Step]:
    number = len(call.prompts) * call.n
    texts: list[Step] = [(index, Delta(text="no")) for index in range(number)]
    return [*texts, *((index, evolve(finish(), labels=SURE)) for index in range(number))]


async def told(client: TestClientProtocol, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The `reame` object, which is the same whole and streamed, and what the choices say of logprobs."""
    whole = await (await client.post(path, json=body)).get_json()
    stream = (await (await client.post(path, json=body | {"stream": True})).get_data(as_text=True)).split("\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in stream if line.startswith("data: {")]
    assert all("reame" not in chunk for chunk in chunks[:-1])
    assert chunks[-1]["reame"] == whole["reame"]
    return whole["reame"], [choice["logprobs"] for choice in whole["choices"]] + [
        choice["logprobs"] for chunk in chunks for choice in chunk["choices"]
    ]


async def test_fields_are_told_and_logprobs_only_to_whom_they_belong(
    client: TestClientProtocol, intake: ScriptedIntake
) -> None:
    intake.script = extraction
    body = chat_body(**JSON, reame={"confidence": True})
    reame, logprobs = await told(client, "/v1/chat/completions", body)
    assert reame["confidence"] == pytest.approx({"/a": 0.5, "/b": 0.25})
    assert "labels" not in reame
    assert set(logprobs) == {None}
    reame, _ = await told(client, "/v1/chat/completions", body | {"n": 2})
    assert reame["confidence"] == [pytest.approx({"/a": 0.5, "/b": 0.25}), pytest.approx({"/a": 0.5})]
    reame, _ = await told(client, "/v1/chat/completions", chat_body(**JSON))
    assert "confidence" not in reame


async def test_labels_are_told_once_for_each_prompt(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = labelling
    body = {"prompt": "is it?", "logprobs": 0, "n": 2, **CHOICE}
    reame, _ = await told(client, "/v1/completions", body)
    assert reame["labels"] == TOLD
    assert "confidence" not in reame
    reame, _ = await told(client, "/v1/completions", body | {"prompt": ["is it?", "are they?"]})
    assert reame["labels"] == [TOLD, TOLD]


async def test_other_protocols_have_it_too(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = labelling
    body = {"input": "is it?", "reame": {"choice": ["yes", "no"], "confidence": True}}
    answer = await (await client.post("/v1/responses", json=body)).get_json()
    assert answer["reame"]["labels"] == TOLD
