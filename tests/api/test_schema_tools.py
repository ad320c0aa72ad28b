"""Tools in a chat: what is read, and what is wrong with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reame.api.schema import Limits, Wanted
from reame.api.schema_chat import read_chat
from reame.core.request import Chat, Sampling
from reame.errors import RequestError

LIMITS = Limits(sampling=Sampling(), max_n=4)
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


def tool(name: str, **function: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PARAMETERS, **function}}


TOOLS = [tool("weather", strict=True, description="Now"), tool("wait", parameters=None)]
NAMED = {"type": "function", "function": {"name": "wait"}}


def read(**fields: Any) -> Wanted:
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": TOOLS, **fields}
    return read_chat(json.dumps(body).encode(), LIMITS)


def source(**fields: Any) -> dict[str, Any]:
    constraint = read(**fields).call.constraint
    assert constraint is not None
    assert constraint.kind == "tools"
    return dict(json.loads(constraint.source))


def shown(wanted: Wanted) -> tuple[Any, ...]:
    (prompt,) = wanted.call.prompts
    assert isinstance(prompt, Chat)
    return prompt.tools


def test_the_model_is_told_of_all_tools() -> None:
    wanted = read()
    weather = {"name": "weather", "parameters": PARAMETERS, "description": "Now"}
    assert [each["function"] for each in shown(wanted)] == [weather, {"name": "wait"}]
    assert wanted.tools
    assert wanted.call.constraint_field == "tools"


@pytest.mark.parametrize(
    ("fields", "names", "must", "parallel"),
    [
        ({}, ["weather", "wait"], False, True),
        ({"tool_choice": "auto", "parallel_tool_calls": False}, ["weather", "wait"], False, False),
        ({"tool_choice": "required"}, ["weather", "wait"], True, True),
        ({"tool_choice": NAMED}, ["wait"], True, False),
    ],
)
def test_which_may_be_called(fields: dict[str, Any], names: list[str], must: bool, parallel: bool) -> None:
    asked = source(**fields)
    assert [each["name"] for each in asked["tools"]] == names
    assert (asked["must"], asked["parallel"]) == (must, parallel)
    assert asked["tools"][-1] == {"number": 1, "name": "wait", "parameters": {}, "strict": False}


def test_a_function_may_be_called_none() -> None:
    named = {"type": "function", "function": {"name": "none"}}
    assert [each["name"] for each in source(tools=[*TOOLS, tool("none")], tool_choice=named)["tools"]] == ["none"]


@pytest.mark.parametrize("fields", [{"tool_choice": "none"}, {"tools": []}, {"tools": None}])
def test_with_none_there_is_nothing_to_call(fields: dict[str, Any]) -> None:
    wanted = read(**fields)
    assert (shown(wanted), wanted.call.constraint, wanted.tools) == ((), None, False)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": {}}, "tools"),
        ({"tools": ["weather"]}, "tools[0]"),
        ({"tools": [{"function": {"name": "f"}}]}, "tools[0].type"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
        ({"tools": [tool("two words")]}, "tools[0].function.name"),
        ({"tools": [tool("x" * 129)]}, "tools[0].function.name"),
        ({"tools": [tool("f", description=5)]}, "tools[0].function.description"),
        ({"tools": [tool("f", parameters=[])]}, "tools[0].function.parameters"),
        ({"tools": [tool("f", strict="yes")]}, "tools[0].function.strict"),
        ({"tools": [tool("f"), tool("f")]}, "tools"),
        ({"tools": [tool(f"f{n}") for n in range(129)]}, "tools"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"tool_choice": 5}, "tool_choice"),
        ({"tool_choice": {}}, "tool_choice.type"),
        ({"tool_choice": {"type": "function"}}, "tool_choice.function"),
        ({"tool_choice": {"type": "function", "function": {"name": "none"}}}, "tool_choice.function.name"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": {"name": "f"}}, "function_call"),
        ({"reame": {"regex": "a"}}, "reame.regex"),
    ],
)
def test_a_fault_names_its_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as caught:
        read(**fields)
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize("choice", ["required", NAMED, "auto", "none"])
def test_no_stop_is_looked_for_where_nothing_but_calls_may_come(choice: Any) -> None:
    wanted = read(tool_choice=choice, stop=["a"])
    must = choice not in ("auto", "none")
    assert (wanted.call.stop, wanted.must_call) == (() if must else ("a",), must)
    with pytest.raises(RequestError, match="stop"):
        read(tool_choice=choice, stop=[1])


def test_a_form_is_that_of_an_answer_without_calls() -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    wanted = read(response_format=form, logprobs=True)
    assert wanted.call.constraint is not None
    assert json.loads(wanted.call.constraint.source)["answer"] == schema
    assert (wanted.call.constraint_field, wanted.call.answer_field) == ("tools", "response_format.json_schema.schema")
    assert (wanted.either, wanted.tools, wanted.call.confidence) == (True, True, False)
    plain = read(response_format={"type": "json_object"})
    assert plain.call.constraint is not None
    assert json.loads(plain.call.constraint.source)["answer"] == {"type": "object"}
    must = read(response_format=form, tool_choice="required")
    assert must.call.constraint is not None
    assert "answer" not in json.loads(must.call.constraint.source)
    none = read(response_format=form, tool_choice="none")
    assert none.call.constraint is not None
    assert (none.call.constraint.kind, none.either) == ("json_schema", False)


def test_variables_of_the_template_are_the_requests_but_for_the_servers_own() -> None:
    given = {"enable_thinking": False, "documents": [{"text": "a"}]}
    (prompt,) = read(chat_template_kwargs=given).call.prompts
    assert isinstance(prompt, Chat)
    assert prompt.variables == given
    for name in ("messages", "tools", "bos_token"):
        with pytest.raises(RequestError) as caught:
            read(chat_template_kwargs={name: "x"})
        assert caught.value.param == f"chat_template_kwargs.{name}"
