"""Bodies of llama-server's endpoints: its words for what OpenAI calls otherwise, and what cannot be had."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_schema_completion import LIMITS, VALUES

from reame.api.schema_native import NativeWanted, read_infill, read_native, read_text, read_tokens
from reame.core.fim import Infill
from reame.errors import RequestError

GAP = {"input_prefix": "a\nb", "input_suffix": "z"}


def native(**fields: Any) -> NativeWanted:
    return read_native(json.dumps({"prompt": "hi"} | fields).encode(), LIMITS)


def infill(**fields: Any) -> NativeWanted:
    return read_infill(json.dumps(GAP | fields).encode(), LIMITS)


def param_at_fault(read: Any, **fields: Any) -> str | None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert caught.value.status == 400
    return caught.value.param


def test_a_key_stroke_of_llama_vscode() -> None:
    wanted = infill(
        id_slot=0, input_extra=[{"text": "AA", "filename": "a.py"}, {"text": "BB"}], prompt="  re", n_predict=128,
        n_cmpl=1, top_k=40, top_p=0.99, stream=False, samplers=["top_k", "top_p", "infill"], cache_prompt=True,
        n_indent=4, t_max_prompt_ms=500, t_max_predict_ms=1000,
    )  # fmt: skip
    (gap,) = wanted.call.prompts
    assert gap == Infill(prefix="a\nb  re", suffix="z", extra=(("a.py", "AA"), ("file", "BB")), cut=True)
    assert wanted.call.max_tokens == 128
    assert wanted.call.generation_s == 1.0
    assert wanted.call.sampling.temperature == 0
    assert (wanted.call.sampling.top_k, wanted.call.sampling.top_p) == (40, 0.99)
    assert not wanted.as_list
    assert infill(n_predict=0, samplers=[], t_max_predict_ms=1).call.max_tokens == 0


def test_a_completion_of_continue() -> None:
    stops = ["<|endoftext|>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "\n\n", "/src/", "```"]
    wanted = native(n_predict=1024, stop=stops, temperature=0.01, stream=True)
    assert (wanted.call.max_tokens, wanted.stream, wanted.call.stop) == (1024, True, tuple(stops))
    assert wanted.call.sampling.temperature == 0.01


def test_words_of_its_own() -> None:
    assert native().call.sampling == LIMITS.sampling
    assert native(n_predict=-1).call.max_tokens is None
    assert native(max_tokens=3).call.max_tokens == native(n_predict=3, max_tokens=9).call.max_tokens == 3
    assert native(seed=-1).call.sampling.seed is None
    assert native(logit_bias=[[5, 1.5], [7, False]]).call.sampling.logit_bias == ((5, 1.5), (7, -100))
    assert native(logit_bias={"5": 1}).call.sampling.logit_bias == ((5, 1),)
    assert native(n_probs=3).call.logprobs == 3
    assert native(n_probs=0).call.logprobs is None
    ids = native(return_tokens=True).call
    assert (ids.logprobs, ids.ids_only) == (0, True)
    assert not native(return_tokens=True, n_probs=1).call.ids_only
    assert native(n_cmpl=3).call.n == 3
    assert native(n_cmpl=3).as_list
    assert native(prompt=["a", "b"]).as_list
    assert infill(temperature=0.5).call.sampling.temperature == 0.5


def test_ignore_eos_bans_every_end() -> None:
    wanted = read_native(b'{"prompt": "x", "ignore_eos": true}', LIMITS.__class__(
        sampling=LIMITS.sampling, max_n=1, vocab_size=100, eog_tokens=frozenset({2, 7})
    ))  # fmt: skip
    assert wanted.call.sampling.logit_bias == ((2, -100), (7, -100))


@pytest.mark.parametrize(
    "fields",
    [
        {"mirostat": 2}, {"dry_multiplier": 0.8}, {"xtc_probability": 0.5}, {"typical_p": 0.9}, {"dynatemp_range": 1},
        {"lora": [{"id": 0, "scale": 0.5}]}, {"post_sampling_probs": True}, {"n_predict": -2}, {"n_predict": "5"},
        {"n_probs": 21}, {"n_cmpl": 0}, {"t_max_predict_ms": -1}, {"logit_bias": [[5]]}, {"logit_bias": [["hi", 1]]},
        {"stop": ["x"] * 65}, {"return_tokens": 1}, {"stream": 1}, {"seed": -(2**63) - 1},
    ],
)  # fmt: skip
def test_refused(fields: dict[str, Any]) -> None:
    (name,) = fields
    for read in (native, infill):
        assert param_at_fault(read, **fields) == name


def test_a_wrong_budget_is_a_fault_beside_a_right_one() -> None:
    assert param_at_fault(native, n_predict=3, max_tokens=-1) == "max_tokens"
    assert param_at_fault(infill, n_predict=0, max_completion_tokens=0) == "max_completion_tokens"


def test_a_number_of_answers_that_is_not_used_must_be_one_all_the_same() -> None:
    assert param_at_fault(native, n_cmpl=1, n=500) == "n"


def test_what_is_switched_off_does_no_harm() -> None:
    off = {
        "mirostat": 0, "dry_multiplier": 0.0, "xtc_probability": 0, "typical_p": 1.0, "dynatemp_range": 0, "lora": [],
        "post_sampling_probs": False, "top_n_sigma": -1,
    }  # fmt: skip
    assert native(**off) == native(**dict.fromkeys(off)) == native()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input_prefix": None}, "input_prefix"),
        ({"input_suffix": None}, "input_suffix"),
        ({"prompt": 1}, "prompt"),
        ({"input_extra": {}}, "input_extra"),
        ({"input_extra": ["x"]}, "input_extra[0]"),
        ({"input_extra": [{"text": 1}]}, "input_extra[0].text"),
        ({"input_extra": [{}] * 257}, "input_extra"),
    ],
)
def test_gaps_refused(fields: dict[str, Any], param: str) -> None:
    assert param_at_fault(infill, **fields) == param


def test_tokens_and_texts() -> None:
    wanted = read_text(b'{"content": "x", "with_pieces": true}', LIMITS)
    assert (wanted.text, wanted.with_pieces, wanted.add_special, wanted.parse_special) == ("x", True, False, True)
    assert read_text(b'{"content": "", "parse_special": false}', LIMITS).parse_special is False
    assert read_tokens(b'{"tokens": [0, 99]}', LIMITS).tokens == (0, 99)
    for read, body in (
        (read_text, b"{}"), (read_text, b'{"content": 1}'), (read_tokens, b"{}"), (read_tokens, b'{"tokens": [100]}'),
        (read_tokens, b'{"tokens": [-1]}'), (read_tokens, b'{"tokens": [true]}'), (read_tokens, b'{"tokens": "x"}'),
    ):  # fmt: skip
        with pytest.raises(RequestError) as caught:
            read(body, LIMITS)
        assert caught.value.param in ("content", "tokens")


NAMES = st.sampled_from([
    "prompt", "n_predict", "input_prefix", "input_suffix", "input_extra", "logit_bias", "n_probs", "seed", "lora",
    "mirostat", "stop", "t_max_predict_ms", "n_cmpl", "ignore_eos", "content", "tokens", "reame", "cache_prompt",
])  # fmt: skip


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=4))
def test_a_bent_body_gives_nothing_but_a_request_error(fields: dict[str, Any]) -> None:
    for read, whole in ((read_native, {"prompt": "x"}), (read_infill, GAP), (read_text, {}), (read_tokens, {})):
        with suppress(RequestError):
            read(json.dumps(whole | fields).encode(), LIMITS)
