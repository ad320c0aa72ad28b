"""llama-server's endpoints as editors call them: whole answers, streams, tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from scripted import MODEL, finish

from reame.core.events import Delta, Finish, Timings, TokenLogprob, Usage

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol
    from scripted import ScriptedIntake, Step

    from reame.core.request import Call

GAP = {"input_prefix": "a\nb", "input_suffix": "z"}


async def posted(client: TestClientProtocol, path: str, body: dict[str, Any], status: int = 200) -> Any:
    response = await client.post(path, json=body)
    assert response.status_code == status, await response.get_data()
    return await response.get_json()


async def events(client: TestClientProtocol, path: str, body: dict[str, Any]) -> list[Any]:
    response = await client.post(path, json=body | {"stream": True})
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    lines = (await response.get_data()).decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@pytest.mark.parametrize("path", ["/completion", "/v1/completion", "/completion/"])
async def test_a_whole_completion(client: TestClientProtocol, path: str) -> None:
    answer = await posted(client, path, {"prompt": "x", "n_predict": 5})
    assert (answer["content"], answer["stop"], answer["model"], answer["index"]) == ("Hello", True, MODEL, 0)
    assert (answer["tokens_evaluated"], answer["tokens_cached"], answer["tokens_predicted"]) == (5, 2, 2)
    assert (answer["stop_type"], answer["stopping_word"], answer["truncated"]) == ("eos", "", False)
    assert answer["generation_settings"]["n_predict"] == 5
    assert answer["generation_settings"]["n_ctx"] == 512
    assert "completion_probabilities" not in answer


async def test_a_gap(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    assert (await posted(client, "/infill", GAP))["content"] == "Hello"
    assert (await posted(client, "/v1/infill/", GAP | {"model": "GPT-4"}))["content"] == "Hello"
    assert intake.call.sampling.temperature == 0
    assert (await posted(client, "/completion", {"prompt": "x", "model": "other", "grammar": ""}))["content"] == "Hello"


async def test_a_stream_has_pieces_and_one_end(client: TestClientProtocol) -> None:
    *pieces, last = await events(client, "/completion", {"prompt": "x"})
    assert [(piece["content"], piece["stop"]) for piece in pieces] == [("Hel", False), ("lo", False)]
    assert (last["content"], last["stop"], last["tokens_predicted"]) == ("", True, 2)


async def test_several_answers_are_a_list(client: TestClientProtocol) -> None:
    answers = await posted(client, "/completion", {"prompt": ["x", "y"], "n_cmpl": 2})
    assert [answer["index"] for answer in answers] == [0, 1, 2, 3]
    ends = [event["index"] for event in await events(client, "/infill", GAP | {"n_cmpl": 2}) if event["stop"]]
    assert sorted(ends) == [0, 1]


async def test_tokens_and_probabilities_when_asked_for(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    token = TokenLogprob(7, b"a", -0.5, ((7, b"a", -0.5), (8, b"b", -1.0)))

    def rated(call: Call) -> list[Step]:
        return [(0, Delta(text="a", logprobs=(token,))), (0, finish())]

    intake.script = rated
    answer = await posted(client, "/completion", {"prompt": "x", "n_probs": 2, "return_tokens": True})
    assert answer["tokens"] == [7]
    (shown,) = answer["completion_probabilities"]
    assert (shown["id"], shown["token"], shown["logprob"], shown["bytes"]) == (7, "a", -0.5, [97])
    assert [rival["id"] for rival in shown["top_logprobs"]] == [7, 8]
    first, _ = await events(client, "/completion", {"prompt": "x", "n_probs": 2})
    assert first["completion_probabilities"] == [shown]


@pytest.mark.parametrize(
    ("end", "kind", "word"),
    [
        (finish("length"), "limit", ""),
        (finish("stop"), "eos", ""),
        (evolve(finish("stop"), stop="\n\n"), "word", "\n\n"),
    ],
)
async def test_why_it_ended(
    intake: ScriptedIntake, client: TestClientProtocol, end: Finish, kind: str, word: str
) -> None:
    def script(call: Call) -> list[Step]:
        return [(0, end)]

    intake.script = script
    answer = await posted(client, "/completion", {"prompt": "x"})
    assert (answer["stop_type"], answer["stopping_word"], answer["content"]) == (kind, word, "")


async def test_timings(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    usage = Usage(prompt_tokens=100, cached_tokens=60, completion_tokens=10)
    timings = Timings(prefill_ms=200, decode_ms=500)

    def script(call: Call) -> list[Step]:
        return [(0, Finish(reason="stop", usage=usage, timings=timings))]

    intake.script = script
    told = (await posted(client, "/completion", {"prompt": "x"}))["timings"]
    assert (told["cache_n"], told["prompt_n"], told["predicted_n"]) == (60, 40, 10)
    assert (told["prompt_per_token_ms"], told["prompt_per_second"]) == (5, 200)
    assert (told["predicted_per_token_ms"], told["predicted_per_second"]) == (50, 20)


async def test_tokens_of_a_text_and_back(client: TestClientProtocol) -> None:
    assert await posted(client, "/tokenize", {"content": "AB"}) == {"tokens": [67, 68]}
    assert await posted(client, "/v1/tokenize", {"content": "A", "add_special": True}) == {"tokens": [1, 67]}
    pieces = await posted(client, "/tokenize", {"content": "Aa", "with_pieces": True})
    assert pieces == {"tokens": [{"id": 67, "piece": "c"}, {"id": 9, "piece": ")"}]}
    assert await posted(client, "/detokenize", {"tokens": [0, 33, 99]}) == {"content": "<0>A\ufffd"}


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/completion", {}, "prompt"),
        ("/completion", {"prompt": "x", "n_predict": "many"}, "n_predict"),
        ("/infill", {"input_prefix": "a"}, "input_suffix"),
        ("/tokenize", {}, "content"),
        ("/detokenize", {"tokens": [100]}, "tokens"),
    ],
)
async def test_bad_bodies(client: TestClientProtocol, path: str, body: dict[str, Any], param: str) -> None:
    assert (await posted(client, path, body, 400))["error"]["param"] == param


@pytest.mark.parametrize("path", ["/completion", "/infill", "/tokenize", "/detokenize"])
async def test_methods_and_types(client: TestClientProtocol, path: str) -> None:
    response = await client.get(path)
    assert (response.status_code, "POST" in response.headers["Allow"]) == (405, True)
    assert (await client.post(path, data="x")).status_code == 415


async def test_while_it_loads(intake: ScriptedIntake, client: TestClientProtocol) -> None:
    intake.status, intake.model = "loading", None
    for path, body in (("/tokenize", {"content": "x"}), ("/detokenize", {"tokens": [1]})):
        assert (await posted(client, path, body, 503))["error"]["code"] == "server_loading"
