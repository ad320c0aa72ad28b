"""LlamaIndex: chats, streams, completions and tools through OpenAILike."""

from __future__ import annotations

from _program import MODEL, QUESTION, URL, tell
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

settings = {
    "model": MODEL, "api_base": URL, "api_key": "none", "temperature": 0, "max_retries": 0,
    "is_chat_model": True, "is_function_calling_model": True, "context_window": 2048,
}  # fmt: skip
model = OpenAILike(**settings, max_tokens=12)
messages = [ChatMessage(role="user", content=QUESTION)]

answer = model.chat(messages)
text = answer.message.content
assert "".join(chunk.delta or "" for chunk in model.stream_chat(messages)) == text
assert model.complete(QUESTION).text == text

plain = OpenAILike(**settings | {"is_chat_model": False}, max_tokens=5)
whole = plain.complete("One two three").text
assert "".join(chunk.delta or "" for chunk in plain.stream_complete("One two three")) == whole


def note(mood: bool) -> str:
    """Write down whether the mood is good."""
    return str(mood)


asked = OpenAILike(**settings, max_tokens=60)
called = asked.chat_with_tools([FunctionTool.from_defaults(note)], user_msg=QUESTION, tool_required=True)
(call,) = asked.get_tool_calls_from_response(called)
assert call.tool_name == "note"
assert isinstance(call.tool_kwargs["mood"], bool)
tell(text=text)
