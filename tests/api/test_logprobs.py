"""OpenAI's two shapes of log-probabilities."""

from __future__ import annotations

import threading
from math import inf
from typing import TYPE_CHECKING, Any

import pytest
from scripted import finish

from reame.api.logprobs import CompletionLogprobs, chat_logprobs
from reame.core.events import Delta, TokenLogprob

if TYPE_CHECKING:
    from quart.typing import TestClientProtocol
    from scripted import ScriptedIntake

HI = TokenLogprob(7, b"hi", -0.5, ((7, b"hi", -0.5), (8, b"ho", -1.5)))
HALF = TokenLogprob(9, b"\xc3", -1.0, ((7, b"hi", -inf),))
OTHER_HALF = TokenLogprob(10, b"\xa4", -0.25)
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}


def test_chat() -> None:
    assert chat_logprobs([HI, HALF]) == {
        "content": [
            {
                "token": "hi",
                "logprob": -0.5,
                "bytes": [104, 105],
                "top_logprobs": [
                    {"token": "hi", "logprob": -0.5, "bytes": [104, 105]},
                    {"token": "ho", "logprob": -1.5, "bytes": [104, 111]},
                ],
            },
            {
                "token": "\\xc3",
                "logprob": -1.0,
                "bytes": [0xC3],
                "top_logprobs": [{"token": "hi", "logprob": -9999.0, "bytes": [104, 105]}],
            },
        ],
        "refusal": None,
    }


def test_completion_offsets_count_characters_across_takes() -> None:
    told = CompletionLogprobs()
    assert told.take([HI, HALF]) == {
        "tokens": ["hi", "bytes:\\xc3"],
        "token_logprobs": [-0.5, -1.0],
        "top_logprobs": [{"hi": -0.5, "ho": -1.5}, {"hi": -9999.0, "bytes:\\xc3": -1.0}],
        "text_offset": [0, 2],
    }
    assert told.take([OTHER_HALF, HI])["text_offset"] == [2, 3]


@pytest.mark.parametrize(("num_tokens", "in_a_thread"), [(20, False), (500, True)])
@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v1/chat/completions", HELLO | {"logprobs": True, "top_logprobs": 5}, ("choices", 0, "logprobs", "content")),
        ("/v1/completions", {"prompt": "x", "logprobs": 5}, ("choices", 0, "logprobs", "tokens")),
        ("/completion", {"prompt": "x", "n_probs": 5}, ("completion_probabilities",)),
    ],
)
async def test_a_long_answer_is_put_together_in_a_thread(
    intake: ScriptedIntake, client: TestClientProtocol, path: str, body: dict[str, Any], where: tuple[str | int, ...],
    num_tokens: int, in_a_thread: bool,
) -> None:  # fmt: skip
    threads: set[bool] = set()

    class Piece(bytes):
        def decode(self, *how: Any, **more: Any) -> str:
            threads.add(threading.current_thread() is not threading.main_thread())
            return super().decode(*how, **more)

    told = Delta(text="a", logprobs=(TokenLogprob(7, Piece(b"a"), -0.5),) * num_tokens)
    intake.script = lambda call: [(0, told), (0, finish())]
    answer = await (await client.post(path, json=body)).get_json()
    for key in where:
        answer = answer[key]
    assert len(answer) == num_tokens
    assert threads == {in_a_thread}
