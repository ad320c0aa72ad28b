"""The endpoints that editors call, against the whole program: Continue's and llama.vscode's bodies, tokens, and prompts
that end inside a word."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from talking import COMPLETIONS, answer, ask, text_of

if TYPE_CHECKING:
    from httpx2 import AsyncClient

STOPS = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|file_sep|>", "/src/", "```"]
CODE = "<|fim_prefix|>def add(a, b):\n    ret<|fim_suffix|>\n\nprint(add(1, 2))\n<|fim_middle|>"


@pytest.mark.parametrize("path", ["/completion", "/v1/completion", "/completion/"])
async def test_continue_with_its_llama_cpp_provider(client: AsyncClient, path: str) -> None:
    body = {"prompt": CODE, "stream": True, "n_predict": 12, "stop": STOPS, "temperature": 0.01, "mirostat": None}
    response = await client.post(path, json=body)
    assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
    *pieces, last, rest = response.text.split("\n\n")
    assert rest == ""
    assert all(set(json.loads(piece[6:])) >= {"content", "stop"} for piece in pieces)
    end = json.loads(last[6:])
    assert (end["stop"], end["tokens_predicted"], end["stop_type"]) == (True, 12, "limit")


async def test_continue_with_its_openai_provider(client: AsyncClient) -> None:
    body = {"prompt": CODE, "stream": True, "max_tokens": 12, "stop": STOPS, "temperature": 0.01}
    response = await client.post("/v1/completions", json=body)
    assert response.status_code == 200
    assert response.text.endswith("data: [DONE]\n\n")


async def test_native_and_openai_answers_are_the_same(client: AsyncClient) -> None:
    native = await answer(client, "/completion", {"prompt": "One, two, three,", "n_predict": 8, "temperature": 0})
    assert native["content"] == await text_of(client, COMPLETIONS, ask("One, two, three,", 8))
    assert native["timings"]["predicted_n"] == 8
    assert native["tokens_evaluated"] == native["timings"]["prompt_n"] + native["timings"]["cache_n"]
    stopped = await answer(
        client, "/completion", {"prompt": "One, two, three,", "n_predict": 30, "temperature": 0, "stop": [" six"]}
    )
    assert (stopped["stop_type"], stopped["stopping_word"]) == ("word", " six")
    assert native["content"].startswith(stopped["content"])


async def test_a_model_that_cannot_fill_in_says_so(client: AsyncClient) -> None:
    gap = {"input_prefix": "def f():\n", "input_suffix": "\n", "prompt": "    ret", "n_predict": 8}
    for path, body in (("/infill", gap), (COMPLETIONS, ask("def f():", 8, suffix="\n"))):
        response = await client.post(path, json=body)
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "no_fill_in_the_middle"


@pytest.mark.parametrize("text", ["Hello!", "Il perché 日本語 👩‍👩‍👧\n\n  x", "<|im_start|>user\nhi<|im_end|>", ""])
async def test_tokens_of_a_text_and_back(client: AsyncClient, text: str) -> None:
    tokens = (await answer(client, "/tokenize", {"content": text}))["tokens"]
    assert (await answer(client, "/detokenize", {"tokens": tokens}))["content"] == text
    with_pieces = (await answer(client, "/tokenize", {"content": text, "with_pieces": True}))["tokens"]
    assert [entry["id"] for entry in with_pieces] == tokens
    spelled = [entry["piece"] for entry in with_pieces]
    assert b"".join(bytes(piece) if isinstance(piece, list) else piece.encode() for piece in spelled).decode() == text


async def test_special_tokens_may_be_plain_text(client: AsyncClient) -> None:
    for wanted, most in ((True, 1), (False, 99)):
        body = {"content": "<|im_end|>", "parse_special": wanted}
        assert 0 < len((await answer(client, "/tokenize", body))["tokens"]) <= most


class TestHealing:
    """A prompt cut inside a word; the answer must go on as if the word had been whole."""

    WHOLE = "The Eiffel Tower is in the city of Paris. It is the capital of France"

    @pytest.mark.parametrize("cut", [2, 4, 5])
    async def test_the_word_is_completed(self, client: AsyncClient, cut: int) -> None:
        """` Fr`, ` Fra`, ...: no token that the model would put there."""
        prompt = self.WHOLE[:-cut]
        healed = await text_of(client, COMPLETIONS, ask(prompt, 3, reame={"heal": True}))
        assert (prompt + healed).startswith(self.WHOLE)

    async def test_it_is_that_of_the_prompt_without_its_last_word(self, client: AsyncClient) -> None:
        """Exact: what is told is what the shorter prompt gives, when that begins with what was taken back."""
        shorter = await text_of(client, COMPLETIONS, ask(self.WHOLE.removesuffix(" France"), 8))
        assert shorter.startswith(" France")
        healed = await text_of(client, COMPLETIONS, ask(self.WHOLE[:-3], 8, reame={"heal": True}))
        assert self.WHOLE[:-3] + healed == self.WHOLE.removesuffix(" France") + shorter

    async def test_streamed_drawn_and_with_several_choices(self, client: AsyncClient) -> None:
        body = ask(self.WHOLE[:-3], 6, reame={"heal": True}, temperature=1.0, seed=3, n=3)
        whole = [choice["text"] for choice in (await answer(client, COMPLETIONS, body))["choices"]]
        texts = [""] * 3
        for line in (await client.post(COMPLETIONS, json=body | {"stream": True})).text.split("\n\n"):
            if line.startswith("data: {"):
                choice: dict[str, Any] = json.loads(line.removeprefix("data: "))["choices"][0]
                texts[choice["index"]] += choice["text"]
        assert texts == whole
        assert all("Fra" not in text for text in texts)

    async def test_an_answer_can_end_right_after_it(self, client: AsyncClient) -> None:
        healed = await text_of(client, COMPLETIONS, ask(self.WHOLE[:-3], 20, reame={"heal": True}, stop=["ce"]))
        assert healed == "n"
