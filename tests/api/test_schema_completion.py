"""Bodies of /v1/completions, and what both endpoints have in common."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.api.schema import Limits
from reame.api.schema_chat import read_chat
from reame.api.schema_completion import read_completion
from reame.core.fim import Infill
from reame.core.request import Sampling
from reame.errors import RequestError

if TYPE_CHECKING:
    from reame.api.schema import Wanted

LIMITS = Limits(sampling=Sampling(temperature=0.3, top_k=7), max_n=16, vocab_size=100)
# fmt: off
OPTIONAL = (
    "max_tokens", "max_completion_tokens", "stop", "temperature", "top_p", "n", "seed", "logit_bias", "response_format",
    "tools", "tool_choice", "user", "stream", "stream_options", "presence_penalty", "frequency_penalty", "logprobs",
    "top_logprobs", "suffix", "echo", "best_of", "model", "top_k", "min_p", "repeat_penalty", "repetition_penalty",
    "functions", "function_call", "modalities", "grammar",
)
# fmt: on


def completion(**fields: Any) -> Wanted:
    return read_completion(json.dumps({"prompt": "hi"} | fields).encode(), LIMITS)


def chat(**fields: Any) -> Wanted:
    return read_chat(json.dumps({"messages": [{"role": "user", "content": "hi"}]} | fields).encode(), LIMITS)


def param_at_fault(**fields: Any) -> str | None:
    """The `param` of the error, the same on both endpoints."""
    params = []
    for read in (completion, chat):
        with pytest.raises(RequestError) as caught:
            read(**fields)
        assert caught.value.status == 400
        params.append(caught.value.param)
    assert params[0] == params[1]
    return params[0]


@pytest.mark.parametrize("read", [completion, chat])
def test_nulls_and_unknown_fields_change_nothing(read: Any) -> None:
    assert read(**dict.fromkeys(OPTIONAL), foo=1, user_data={"a": [None]}) == read()


def test_the_request_wins_over_the_configured_default() -> None:
    for read in (completion, chat):
        assert read().call.sampling == LIMITS.sampling
        sampling = read(temperature=0, seed=9, repetition_penalty=1.2, logit_bias={"5": -100, "99": 1.5}).call.sampling
        assert sampling.temperature == 0
        assert sampling.top_k == 7
        assert sampling.repeat_penalty == 1.2
        assert sampling.seed == 9
        assert sampling.logit_bias == ((5, -100), (99, 1.5))


@pytest.mark.parametrize(
    ("stop", "read"),
    [
        ("X", ("X",)),
        (["X"], ("X",)),
        (list("XYZW"), tuple("XYZW")),
        ([], ()),
        ("", ()),
        ([""], ()),
        (["", "a"], ("a",)),
    ],
)
def test_stop(stop: object, read: tuple[str, ...]) -> None:
    assert completion(stop=stop).call.stop == chat(stop=stop).call.stop == read


@pytest.mark.parametrize("stop", [list("abcde"), [1], 1, True, {}, [None], ["x" * 2000], [["a"]]])
def test_stop_refused(stop: object) -> None:
    assert param_at_fault(stop=stop) == "stop"


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_max_tokens(name: str) -> None:
    for value in (1, 5, 5.0, 10**9):
        assert completion(**{name: value}).call.max_tokens == value
        assert chat(**{name: value}).call.max_tokens == value
    for bad in (-1, "5", True, [], 1.5, 10**30):
        assert param_at_fault(**{name: bad}) == name
    with pytest.raises(RequestError) as caught:
        chat(**{name: 0})
    assert caught.value.param == name
    with pytest.raises(RequestError, match="max_completion_tokens"):
        completion(max_completion_tokens=0)


def test_messages_speak_of_bounds_that_matter() -> None:
    with pytest.raises(RequestError, match=r"^max_tokens must be an integer of at least 1, not 0\.$"):
        chat(max_tokens=0)
    with pytest.raises(RequestError, match=r"^seed must be an integer of 64 bits, not a string\.$"):
        chat(seed="7")
    with pytest.raises(RequestError, match=r"^n must be an integer from 1 to 16, not 17\.$"):
        chat(n=17)


def test_both_limits_must_agree() -> None:
    assert chat(max_tokens=5, max_completion_tokens=5).call.max_tokens == 5
    assert param_at_fault(max_tokens=5, max_completion_tokens=6) == "max_completion_tokens"


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("temperature", ["hot", -1, 2.01, True, []]),
        ("top_p", [0, 1.01, "1"]),
        ("min_p", [-0.1, 1.1]),
        ("top_k", [-2, 1.5, "40"]),
        ("repeat_penalty", [0, 11]),
        ("repetition_penalty", [0, 11]),
        ("presence_penalty", [-2.1, 2.1]),
        ("frequency_penalty", [-2.1, 2.1]),
        ("seed", ["7", 1.5, 2**64]),
        ("n", [0, -1, 17, 1000, "2", True]),
        ("stream", ["true", 1]),
        ("model", [1, {}]),
        ("logit_bias", [[], {"100": 1}, {"yes": 1}, {"-1": 1}, {"07": 1}, {"": 1}, {"²": 1}, {"9" * 30: 1}]),
    ],
)
def test_a_wrong_value_names_its_field(name: str, bad: list[object]) -> None:
    for value in bad:
        assert param_at_fault(**{name: value}) == name


@pytest.mark.parametrize("value", [500, -101, None, "1", True])
def test_a_bias_out_of_range_names_its_token(value: object) -> None:
    assert param_at_fault(logit_bias={"5": value}) == "logit_bias.5"


def test_edges_that_are_fine() -> None:
    assert chat(top_k=-1).call.sampling.top_k == 0
    assert (
        chat(temperature=2, top_p=1, presence_penalty=-2, seed=-1, n=16, response_format={"type": "text"}).call.n == 16
    )
    assert chat(logit_bias={}).call.sampling.logit_bias == ()
    assert chat(model="x").model == "x"
    assert chat(model="").model == ""


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({"stream": True, "stream_options": {"include_usage": True}}, (True, True)),
        ({"stream": True, "stream_options": {"include_usage": False}}, (True, False)),
        ({"stream": True, "stream_options": {}}, (True, False)),
        ({"stream": True}, (True, False)),
        ({"stream": False, "stream_options": {"include_usage": True}}, (False, False)),
    ],
)
def test_stream_options(fields: dict[str, Any], wanted: tuple[bool, bool]) -> None:
    for read in (completion, chat):
        assert (read(**fields).stream, read(**fields).include_usage) == wanted


@pytest.mark.parametrize(
    ("prompt", "read"),
    [
        ("", ("",)),
        ("a", ("a",)),
        (["a", "b"], ("a", "b")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1], [2, 99]], ((1,), (2, 99))),
    ],
)
def test_prompts(prompt: object, read: tuple[object, ...]) -> None:
    assert completion(prompt=prompt).call.prompts == read


@pytest.mark.parametrize(
    "prompt",
    [None, [], [[]], [[1], []], 5, True, {}, ["a", 1], [1, "a"], [1, True], [1.0], [None], [-1], [100], [["a"]]],
)
def test_prompts_refused(prompt: object) -> None:
    with pytest.raises(RequestError) as caught:
        completion(prompt=prompt)
    assert caught.value.param == "prompt"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"suffix": "x", "prompt": [1, 2]}, "suffix"),
        ({"suffix": "x", "echo": True, "logprobs": 1}, "suffix"),
        ({"suffix": 1}, "suffix"),
        ({"best_of": 0}, "best_of"),
        ({"best_of": 65}, "best_of"),
        ({"best_of": "most"}, "best_of"),
        ({"best_of": 2, "n": 3}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"echo": "yes"}, "echo"),
    ],
)
def test_completions_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        completion(**fields)
    assert caught.value.param == param


def test_completions_accepted() -> None:
    assert completion(suffix="", best_of=3, n=3).call.n == 3
    assert completion(logprobs=0).call.logprobs == 0
    assert completion(prompt=["a", "b"], echo=True).echo == ("a", "b")
    assert completion(echo=False).echo == ()
    assert completion(max_tokens=0).call.max_tokens == 0


def test_echo_of_token_ids_is_their_text() -> None:
    limits = evolve(LIMITS, spelled=lambda token: b"<%d>" % token)
    wanted = read_completion(b'{"prompt": [[1, 2], [3]], "echo": true}', limits)
    assert wanted.echo == ("<1><2>", "<3>")


def test_echo_with_logprobs_rates_the_prompt() -> None:
    call = completion(echo=True, logprobs=2).call
    assert (call.prompt_logprobs, call.logprobs, call.answers) == (True, 2, False)
    for call in (completion(echo=True).call, completion(logprobs=2).call):
        assert (call.prompt_logprobs, call.answers) == (False, True)


def test_a_suffix_makes_gaps() -> None:
    gaps = completion(prompt=["a", "b"], suffix="z").call.prompts
    assert gaps == (Infill(prefix="a", suffix="z"), Infill(prefix="b", suffix="z"))
    assert completion(suffix="z", echo=True).echo == ("hi",)
    assert completion(suffix="").call.prompts == ("hi",)


def test_editors_may_send_many_stop_strings() -> None:
    stops = [f"<|{number}|>" for number in range(14)]
    assert len(completion(prompt="<|fim_prefix|>a<|fim_suffix|>b<|fim_middle|>", stop=stops).call.stop) == 14
    assert len(completion(suffix="b", stop=stops).call.stop) == 14
    with pytest.raises(RequestError, match="at most 64"):
        completion(suffix="b", stop=["x"] * 65)
    with pytest.raises(RequestError, match="at most 4"):
        completion(prompt="a", stop=stops)


def test_healing_is_asked_for_in_the_servers_own_object() -> None:
    assert completion().call.heal is None
    assert completion(reame={}).call.heal is None
    assert completion(reame={"heal": True}).call.heal is True
    assert completion(reame={"heal": False}).call.heal is False
    with pytest.raises(RequestError) as caught:
        completion(reame={"heal": 1})
    assert caught.value.param == "reame.heal"


NAMES = st.sampled_from([*OPTIONAL, "prompt", "messages", "repeat_last_n", "json_schema"])
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
KEYS = st.sampled_from(["role", "content", "type", "text", "include_usage", "tool_calls", "function", "id", "7"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=8)


@settings(deadline=None)
@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_a_bent_body_gives_nothing_but_a_request_error(fields: dict[str, Any]) -> None:
    for read in (completion, chat):
        try:
            wanted = read(**fields)
        except RequestError as error:
            param = error.param
        else:
            param = None
            assert wanted.call.n >= 1
        assert param is None or param.split(".")[0].split("[")[0] in fields
