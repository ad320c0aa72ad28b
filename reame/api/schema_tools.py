"""`tools`, `tool_choice` and `parallel_tool_calls` of a chat. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from attrs import evolve, frozen

from reame.api.schema_fields import Fields, kind
from reame.core.constraint import Constraint

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_TOOLS = 128
FUNCTION_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
"""As long as Anthropic has them; names of MCP servers' tools may be longer than OpenAI's 64."""


@frozen
class Tools:
    """`shown` are those that the model is told of, as OpenAI has them; none: nothing may be called. `constraint` is
    that of the answer then. `must`: it is nothing but calls."""

    shown: tuple[Mapping[str, Any], ...] = ()
    constraint: Constraint | None = None
    must: bool = False


def with_answer(tools: Tools, form: Constraint) -> Tools:
    """The same where an answer that calls nothing is JSON of this form."""
    if tools.constraint is None or tools.must:
        return tools
    schema = json.loads(form.source) if form.kind == "json_schema" else {"type": "object"}
    source = json.loads(tools.constraint.source) | {"answer": schema}
    text = json.dumps(source, separators=(",", ":"), ensure_ascii=False)
    return evolve(tools, constraint=Constraint("tools", text))


def read_tools(fields: Fields) -> Tools:
    """Raises RequestError (400) with the field at fault."""
    _refuse_functions(fields)
    given = fields.array("tools") or []
    tools = [_read_tool(fields, index, tool) for index, tool in enumerate(given)]
    strict = {number for number, tool in enumerate(given) if tool["function"].get("strict")}
    if len(tools) > MAX_TOOLS:
        raise fields.fault("tools", f"may have at most {MAX_TOOLS} tools, not {len(tools)}.")
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) != len(names):
        raise fields.fault("tools", "has two functions of the same name.")
    parallel = fields.get("parallel_tool_calls") is None or fields.flag("parallel_tool_calls")
    must, only = _read_choice(fields, names)
    if not tools or only is None:
        return Tools()
    callable_ = [
        {
            "number": number,
            "name": tool["function"]["name"],
            "parameters": tool["function"].get("parameters", {}),
            "strict": number in strict,
        }
        for number, tool in enumerate(tools)
        if not only or tool["function"]["name"] == only
    ]
    source = {"tools": callable_, "must": must, "parallel": parallel and not only}
    text = json.dumps(source, separators=(",", ":"), ensure_ascii=False)
    return Tools(tuple(tools), Constraint("tools", text), must)


def _read_tool(fields: Fields, index: int, tool: Any) -> dict[str, Any]:
    name = f"tools[{index}]"
    if not isinstance(tool, dict):
        raise fields.fault(name, f"must be an object, not {kind(tool)}.")
    inner = Fields(tool, name)
    if inner.text("type") != "function":
        raise inner.fault("type", 'must be "function": this server has no tools of its own.')
    function = inner.record("function")
    if function is None:
        raise inner.fault("function", "is required.")
    if not FUNCTION_NAME.fullmatch(function.text("name") or ""):
        raise function.fault("name", "must have 1 to 128 letters, digits, underscores, dots or dashes.")
    function.text("description")
    function.flag("strict")
    function.record("parameters")
    told = {key: value for key, value in function.values.items() if value is not None and key != "strict"}
    return {"type": "function", "function": told}


def _read_choice(fields: Fields, names: list[str]) -> tuple[bool, str | None]:
    """(whether a call there must be, the only function that may be called: "" for any, None for none)."""
    choice = fields.get("tool_choice")
    if choice is None or choice in ("none", "auto", "required"):
        if choice == "required" and not names:
            raise fields.fault("tool_choice", "needs tools.")
        return choice == "required", None if choice == "none" else ""
    if not isinstance(choice, dict):
        raise fields.fault("tool_choice", 'must be "none", "auto", "required" or a function of those in tools.')
    inner = Fields(choice, "tool_choice")
    if inner.text("type") != "function":
        raise inner.fault("type", 'must be "function".')
    function = inner.record("function")
    if function is None:
        raise inner.fault("function", "is required, with the name of one in tools.")
    name = function.text("name")
    if name not in names:
        raise function.fault("name", "must be that of a function in tools.")
    return True, name or ""


def _refuse_functions(fields: Fields) -> None:
    """What OpenAI had before tools."""
    if fields.array("functions"):
        raise fields.fault("functions", "is not supported: send them as tools.")
    if fields.get("function_call") not in (None, "none", "auto"):
        raise fields.fault("function_call", "is not supported: send tools and tool_choice.")
