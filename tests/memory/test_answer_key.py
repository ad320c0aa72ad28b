"""The name of an answer: everything that decides it, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve, fields
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.core.answer_key import NOT_ASKED, answer_key, is_fixed
from reame.core.constraint import Constraint
from reame.core.request import Request, Sampling
from reame.core.vote import Conclave

WHO_AND_WHEN: dict[str, Any] = {
    "id": "other", "key": "bob", "deadline": 5.0, "background": True, "passing": True,
}  # fmt: skip
"""Fields that do not decide the answer, and another value of each."""
OTHER: dict[str, Any] = {
    "prompt": (1, 2, 4),
    "max_tokens": 11,
    "stop": ("b",),
    "logprobs": 1,
    "namespace": "bob",
    "conclave": Conclave(size=3),
    "labels": True,
    "constraint": Constraint("regex", "a"),
    "forced": (4,),
    "prompt_logprobs": True,
    "healed": b"x",
    "most_again": 1,
    "generation_s": 1.0,
    "temperature": 0.7,
    "top_k": 41,
    "top_p": 0.5,
    "min_p": 0.1,
    "repeat_penalty": 1.2,
    "repeat_last_n": 65,
    "presence_penalty": 0.1,
    "frequency_penalty": 0.1,
    "seed": 8,
    "logit_bias": ((3, 1.0),),
}
"""Another value of each field that does. A new field of a request must be entered in one of the two."""
REQUEST = Request(id="a", prompt=(1, 2, 3), max_tokens=10, sampling=Sampling(seed=7), stop=("a",), namespace="alice")


def test_no_field_was_forgotten() -> None:
    names = {field.name for field in (*fields(Request), *fields(Sampling))}
    assert names - {"sampling"} == {*OTHER, *WHO_AND_WHEN}
    assert set(WHO_AND_WHEN) == NOT_ASKED


@pytest.mark.parametrize("name", OTHER)
def test_every_field_counts(name: str) -> None:
    if name in {field.name for field in fields(Request)}:
        other = evolve(REQUEST, **{name: OTHER[name]})
    else:
        other = evolve(REQUEST, sampling=evolve(REQUEST.sampling, **{name: OTHER[name]}))
    assert other != REQUEST
    assert answer_key(b"model", other) != answer_key(b"model", REQUEST)


def test_who_asks_does_not_count_but_the_model_does() -> None:
    assert answer_key(b"model", evolve(REQUEST, **WHO_AND_WHEN)) == answer_key(b"model", REQUEST)
    assert answer_key(b"other", REQUEST) != answer_key(b"model", REQUEST)
    assert len(answer_key(b"model", REQUEST)) == 32


def test_without_a_temperature_the_seed_is_not_used() -> None:
    """The server draws one for each request that names none."""
    cold = evolve(REQUEST, sampling=Sampling(temperature=0, seed=1))
    assert answer_key(b"m", cold) == answer_key(b"m", evolve(cold, sampling=Sampling(temperature=0, seed=2)))
    warm = evolve(REQUEST, sampling=Sampling(temperature=0.1, seed=1))
    assert answer_key(b"m", warm) != answer_key(b"m", evolve(warm, sampling=Sampling(temperature=0.1, seed=2)))


@pytest.mark.parametrize(
    ("temperature", "seed_given", "fixed"),
    [(0.0, False, True), (0.0, True, True), (0.8, True, True), (0.8, False, False)],
)
def test_what_is_fixed(temperature: float, seed_given: bool, fixed: bool) -> None:
    request = evolve(REQUEST, sampling=Sampling(temperature=temperature, seed=1))
    assert is_fixed(request, seed_given=seed_given) == fixed


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.1, 0.5]),
    top_k=st.integers(0, 2),
    seed=st.none() | st.integers(0, 2**64),
    logit_bias=st.lists(st.tuples(st.integers(0, 2), st.floats(-1, 1)), max_size=2).map(tuple),
)
requests = st.builds(
    Request,
    id=st.just("x"),
    prompt=st.lists(st.integers(0, 300), max_size=3).map(tuple),
    max_tokens=st.integers(1, 300),
    sampling=samplings,
    stop=st.lists(st.text(max_size=2), max_size=3).map(tuple),
    logprobs=st.none() | st.integers(0, 2),
    namespace=st.text(max_size=3),
)


@given(requests, requests)
@settings(deadline=None)
def test_two_requests_share_a_name_only_when_they_are_the_same(one: Request, other: Request) -> None:
    """The texts may hold anything, such as what separates two of them; -0.0 is another float than 0.0."""
    same = repr(one) == repr(other)
    assert (answer_key(b"m", one) == answer_key(b"m", other)) == same


def test_a_value_without_a_canonical_form_is_a_bug_and_says_so() -> None:
    with pytest.raises(TypeError, match="no canonical form for list"):
        answer_key(b"m", evolve(REQUEST, stop=["a"]))
