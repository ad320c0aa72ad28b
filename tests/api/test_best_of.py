"""`best_of` on the wire: what is read, what is refused, and how an election is told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from scripted import ScriptedIntake, Step, chat_body, finish

from reame.api.conclave import conclave_object
from reame.api.schema import Limits, Wanted
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.core.events import Delta
from reame.core.request import Sampling
from reame.core.vote import Agreed, Conclave, Group, Progress, Verdict
from reame.errors import RequestError

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol

    from reame.core.request import Call

LIMITS = Limits(sampling=Sampling(), max_n=4, vocab_size=100, conclave_candidates=6, conclave_margin=0.2)
VERDICT = Verdict(
    candidates=5, vote="number", elected=1, agreement=3, groups=(Group("18", (0, 1, 4)), Group("17", (2,))), stopped=1,
    tokens=50, tokens_saved=9, ms=120.5, ms_saved=20.0,
)  # fmt: skip
TOLD = {
    "candidates": 5, "vote": "number", "agreement": "3/5", "elected": 1, "silent": 0, "stopped": 1, "tokens": 50,
    "tokens_saved": 9, "ms": 120.5, "ms_saved": 20.0, "stored": False,
    "groups": [{"answer": "18", "candidates": [0, 1, 4]}, {"answer": "17", "candidates": [2]}],
}  # fmt: skip


def chat(**fields: Any) -> Wanted:
    return read_chat(json.dumps(chat_body(**fields)).encode(), LIMITS)


def completion(**fields: Any) -> Wanted:
    return read_completion(json.dumps({"prompt": "x"} | fields).encode(), LIMITS)


@pytest.mark.parametrize("read", [chat, completion])
@pytest.mark.parametrize(
    ("fields", "conclave"),
    [
        ({}, None),
        ({"best_of": None}, None),
        ({"best_of": 1}, None),
        ({"best_of": 3, "n": 3}, None),
        ({"best_of": 5}, Conclave(size=5)),
        ({"best_of": 64, "n": 1}, Conclave(size=64)),
        ({"best_of": 5.0, "reame": {"vote": "json"}}, Conclave(size=5, vote="json")),
        ({"best_of": "auto"}, Conclave(size=6, margin=0.2)),
        ({"best_of": 2, "reame": {"early_stop": False}}, Conclave(size=2, early=False)),
        ({"best_of": 3, "n": 2}, Conclave(size=3, early=False)),
    ],
)
def test_read(read: Any, fields: dict[str, Any], conclave: Conclave | None) -> None:
    assert read(**fields).call.conclave == conclave


@pytest.mark.parametrize("read", [chat, completion])
@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 0}, "best_of"),
        ({"best_of": 65}, "best_of"),
        ({"best_of": "5"}, "best_of"),
        ({"best_of": True}, "best_of"),
        ({"best_of": [5]}, "best_of"),
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"best_of": "auto", "n": 2}, "best_of"),
        ({"best_of": 5, "reame": {"vote": "loudest"}}, "reame.vote"),
        ({"best_of": 5, "reame": {"vote": 5}}, "reame.vote"),
        ({"best_of": 5, "reame": {"early_stop": "no"}}, "reame.early_stop"),
        ({"reame": {"vote": "number"}}, "reame.vote"),
        ({"reame": {"early_stop": True}}, "reame.early_stop"),
    ],
)
def test_refused(read: Any, fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


def election(call: Call) -> list[Step]:
    progress = Delta(progress=Progress(5, 2, 1))
    return [(0, progress), (0, Delta(text="18 eggs")), (0, evolve(finish(completion=50), verdict=VERDICT))]


async def test_the_answer_has_the_election(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = election
    reply = await (await client.post("/v1/chat/completions", json=chat_body(best_of=5))).get_json()
    assert [choice["message"]["content"] for choice in reply["choices"]] == ["18 eggs"]
    assert reply["reame"]["conclave"] == TOLD
    assert reply["usage"]["completion_tokens"] == 50


async def test_the_stream_has_comments_and_then_the_answer(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = election
    body = {"prompt": "x", "best_of": 5, "stream": True}
    lines = (await (await client.post("/v1/completions", json=body)).get_data(as_text=True)).split("\n\n")
    assert lines[0] == ": conclave: 2 of 5 have answered, 1 agree"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[1:-2]]
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["18 eggs", ""]
    assert chunks[-1]["reame"]["conclave"] == TOLD


async def test_a_chat_begins_with_the_role(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = election
    body = chat_body(best_of=5, stream=True)
    lines = (await (await client.post("/v1/chat/completions", json=body)).get_data(as_text=True)).split("\n\n")
    assert json.loads(lines[0].removeprefix("data: "))["choices"][0]["delta"]["role"] == "assistant"
    assert lines[1].startswith(": conclave: ")


async def test_several_prompts_have_a_list(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.script = lambda call: [*election(call), *((1, event) for _, event in election(call))]  # type: ignore[misc]
    body = {"prompt": ["x", "y"], "best_of": 5}
    reply = await (await client.post("/v1/completions", json=body)).get_json()
    assert reply["reame"]["conclave"] == [TOLD, TOLD]


def test_fields_are_told_where_they_were_voted_on() -> None:
    told = conclave_object(
        Verdict(candidates=3, vote="json", elected=0, agreement=1, fields=(Agreed("total", 2),)), stored=True
    )
    assert told["fields"] == {"total": "2/3"}
    assert told["stored"]
