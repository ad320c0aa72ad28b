"""anthropic-python: whole and streamed messages, token counts, a tool call, and its own error classes."""

from __future__ import annotations

import anthropic
from _program import MODEL, QUESTION, ROOT_URL, tell

client = anthropic.Anthropic(base_url=ROOT_URL, api_key="none", max_retries=0, _strict_response_validation=True)
messages = [{"role": "user", "content": QUESTION}]
asked = {"model": MODEL, "max_tokens": 12, "messages": messages, "extra_body": {"temperature": 0}}

message = client.messages.create(**asked)
assert message.role == "assistant"
assert message.stop_reason in ("max_tokens", "end_turn")
assert message.usage.output_tokens > 0

with client.messages.stream(**asked) as stream:
    pieces = list(stream.text_stream)
    final = stream.get_final_message()
assert "".join(pieces) == final.content[0].text == message.content[0].text
assert final.usage.output_tokens == message.usage.output_tokens
assert final.stop_reason == message.stop_reason

count = client.messages.count_tokens(model=MODEL, messages=messages)
assert count.input_tokens == message.usage.input_tokens + message.usage.cache_read_input_tokens

stopped = client.messages.create(**asked | {"stop_sequences": [pieces[2]]})
assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", pieces[2])

tool = {
    "name": "note",
    "description": "Write a mood down.",
    "input_schema": {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
        "additionalProperties": False,
    },
}
forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": "note"}, "max_tokens": 60}
call = client.messages.create(**asked | forced)
block = next(block for block in call.content if block.type == "tool_use")
assert (call.stop_reason, block.name) == ("tool_use", "note")
assert block.input["mood"] in ("good", "bad")
with client.messages.stream(**asked | forced) as stream:
    streamed = next(block for block in stream.get_final_message().content if block.type == "tool_use")
assert streamed.input == block.input

result = {"type": "tool_result", "tool_use_id": block.id, "content": "written down"}
answer = client.messages.create(
    **asked
    | {"tools": [tool]}
    | {
        "messages": [
            *messages,
            {"role": "assistant", "content": [block.model_dump(include={"type", "id", "name", "input"})]},
            {"role": "user", "content": [result]},
        ]
    }
)
assert answer.content

for wrong, kind, code in (
    ({"max_tokens": 0}, anthropic.BadRequestError, "invalid_request_error"),
    ({"model": "other"}, anthropic.NotFoundError, "not_found_error"),
):
    caught = None
    try:
        client.messages.create(**asked | wrong)
    except kind as error:
        caught = error
    assert caught is not None, f"{wrong} was taken"
    assert caught.body["error"]["type"] == code

tell(text=message.content[0].text)
