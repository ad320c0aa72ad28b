"""What stands inside of requests: messages, blocks, items, tools and forms of answers, as JSON Schemas. Pure."""

from __future__ import annotations

from reame.api.openapi_words import Schema, either, flag, many, one_of, part, record, text
from reame.api.schema_format import NAME
from reame.api.schema_tools import FUNCTION_NAME
from reame.core.vote import VOTE_KINDS

JSON_SCHEMA = either(record(), flag(), text(), note="A JSON Schema, or the JSON text of one.")
_SHAPE: dict[str, Schema] = {
    "name": text(pattern=f"^{NAME.pattern}$"), "description": text(), "schema": JSON_SCHEMA, "strict": flag(),
}  # fmt: skip
_FREE = (
    part({"type": one_of("text")}, "type"),
    part({"type": one_of("json_object"), "schema": JSON_SCHEMA}, "type"),
)
RESPONSE_FORMAT = either(
    *_FREE,
    part({"type": one_of("json_schema"), "json_schema": part(_SHAPE, "schema")}, "type", "json_schema"),
    note="What the answer must be.",
)
TEXT_FORMAT = either(*_FREE, part({"type": one_of("json_schema"), **_SHAPE}, "type", "schema"))
CONSTRAINTS: dict[str, Schema] = {
    "regex": text("A regular expression that the answer matches.", minLength=1),
    "choice": many(text(minLength=1), "The answer is one of these.", minItems=1),
    "grammar": text("A Lark grammar, or GBNF.", minLength=1),
}
NATIVE_WISHES: dict[str, Schema] = {
    "answers": flag("false: compute, even when the very same request was answered before."),
    "heal": flag("false: a prompt that ends within a word is not taken back to its last whole token."),
    "background": flag("true: only as far as nobody else feels it."),
    **CONSTRAINTS,
}
WISHES: dict[str, Schema] = {
    **NATIVE_WISHES,
    "vote": one_of(*VOTE_KINDS, note="Of best_of: what the candidates vote on."),
    "early_stop": flag("Of best_of: false lets all candidates finish."),
    "confidence": flag("true: tell the probability of every label, or of each field of the JSON."),
}

TEXT_PART = part({"type": one_of("text"), "text": text()}, "type", "text")
_REFUSAL = part({"type": one_of("refusal"), "refusal": text()}, "type", "refusal")
CONTENT = either(text(), many(either(TEXT_PART, _REFUSAL)))
_CALLED = part({"name": text(minLength=1), "arguments": either(text(), record())}, "name", "arguments")
_CALLS = many(part({"id": text(minLength=1), "type": one_of("function"), "function": _CALLED}, "id", "function"))
_SAID: dict[str, Schema] = {"name": text(), "reasoning_content": text()}
_ROLES = ("system", "developer", "user", "assistant")
MESSAGE = either(
    part({"role": one_of(*_ROLES), "content": CONTENT, **_SAID, "tool_calls": _CALLS}, "role", "content"),
    part(
        {"role": one_of("assistant"), "content": CONTENT, **_SAID, "tool_calls": _CALLS | {"minItems": 1}},
        "role", "tool_calls",
    ),
    part(
        {"role": one_of("tool"), "content": CONTENT, "tool_call_id": text(minLength=1), **_SAID, "tool_calls": _CALLS},
        "role", "content", "tool_call_id",
    ),
)  # fmt: skip

_NAMED = text(pattern=f"^{FUNCTION_NAME.pattern}$")
_FUNCTION: dict[str, Schema] = {
    "name": _NAMED, "description": text(), "parameters": record(), "strict": flag(),
}  # fmt: skip
TOOL = part({"type": one_of("function"), "function": part(_FUNCTION, "name")}, "type", "function")
RESPONSES_TOOL = part({"type": one_of("function"), **_FUNCTION}, "type", "name")
_ANY_CHOICE = one_of("none", "auto", "required")
TOOL_CHOICE = either(
    _ANY_CHOICE, part({"type": one_of("function"), "function": part({"name": text()}, "name")}, "type", "function")
)
RESPONSES_CHOICE = either(_ANY_CHOICE, part({"type": one_of("function"), "name": text()}, "type", "name"))

ANTHROPIC_TEXT = either(text(), many(TEXT_PART))
_BLOCKS = many(
    either(
        TEXT_PART,
        part({"type": one_of("tool_use"), "id": text(minLength=1), "name": text(minLength=1), "input": record()},
             "type", "id", "name"),
        part({"type": one_of("tool_result"), "tool_use_id": text(minLength=1), "content": ANTHROPIC_TEXT,
              "is_error": flag("The tool failed.")},
             "type", "tool_use_id"),
        part({"type": one_of("thinking", "redacted_thinking")}, "type"),
    )
)  # fmt: skip
ANTHROPIC_MESSAGE = part(
    {"role": one_of("user", "assistant"), "content": either(text(), _BLOCKS)}, "role", "content"
)
ANTHROPIC_TOOL = part(
    {"type": one_of("custom"), "name": _NAMED, "description": text(), "input_schema": record(), "strict": flag()},
    "name",
)
ANTHROPIC_CHOICE = either(
    part({"type": one_of("auto", "any", "none"), "name": text(), "disable_parallel_tool_use": flag()}, "type"),
    part({"type": one_of("tool"), "name": text(), "disable_parallel_tool_use": flag()}, "type", "name"),
)
ANTHROPIC_FORMAT = part({"type": one_of("json_schema"), "schema": record()}, "type", "schema")

_PARTS = many(
    either(
        part({"type": one_of("input_text", "output_text", "text"), "text": text()}, "type", "text"),
        _REFUSAL,
    )
)
_SPOKEN = either(text(), _PARTS)
ITEM = either(
    part({"type": one_of("message"), "role": one_of(*_ROLES), "content": _SPOKEN}, "role", "content"),
    part(
        {
            "type": one_of("function_call"), "call_id": text(minLength=1), "name": text(minLength=1),
            "arguments": text("A JSON object."),
        },
        "type", "call_id", "name",
    ),
    part(
        {"type": one_of("function_call_output"), "call_id": text(minLength=1), "output": _SPOKEN},
        "type", "call_id", "output",
    ),
    part({"type": one_of("item_reference"), "id": text(minLength=1)}, "type", "id"),
    part({"type": one_of("reasoning")}, "type"),
)  # fmt: skip
