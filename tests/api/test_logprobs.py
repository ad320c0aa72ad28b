"""OpenAI's two shapes of log-probabilities."""

from __future__ import annotations

from math import inf

from reame.api.logprobs import CompletionLogprobs, chat_logprobs
from reame.core.events import TokenLogprob

HI = TokenLogprob(7, b"hi", -0.5, ((7, b"hi", -0.5), (8, b"ho", -1.5)))
HALF = TokenLogprob(9, b"\xc3", -1.0, ((7, b"hi", -inf),))
OTHER_HALF = TokenLogprob(10, b"\xa4", -0.25)


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
