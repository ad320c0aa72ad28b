"""LiteLLM: OpenAI and Anthropic routes, streams, text completions, tools, embeddings, and its mapped errors."""

from __future__ import annotations

import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network for a list of prices

import json

import litellm
from _program import MODEL, QUESTION, ROOT_URL, URL, VECTORS, tell

messages = [{"role": "user", "content": QUESTION}]
openai = {"model": f"openai/{MODEL}", "api_base": URL, "api_key": "none", "temperature": 0, "max_retries": 0}

answer = litellm.completion(**openai, messages=messages, max_tokens=12)
text = answer.choices[0].message.content
assert answer.usage.completion_tokens > 0

stream = litellm.completion(
    **openai, messages=messages, max_tokens=12, stream=True, stream_options={"include_usage": True}
)
chunks = list(stream)
assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
rebuilt = litellm.stream_chunk_builder(chunks, messages=messages)
assert rebuilt.choices[0].message.content == text

function = {
    "name": "note",
    "description": "Write a mood down.",
    "parameters": {
        "type": "object",
        "properties": {"mood": {"enum": ["good", "bad"]}},
        "required": ["mood"],
        "additionalProperties": False,
    },
}
called = litellm.completion(
    **openai,
    messages=messages,
    max_tokens=60,
    tools=[{"type": "function", "function": function}],
    tool_choice={"type": "function", "function": {"name": "note"}},
)
(call,) = called.choices[0].message.tool_calls
assert json.loads(call.function.arguments)["mood"] in ("good", "bad")

completed = litellm.text_completion(
    model=f"text-completion-openai/{MODEL}", api_base=URL, api_key="none", prompt="One two three", max_tokens=5,
    temperature=0,
)  # fmt: skip
assert completed.choices[0].text

told = litellm.completion(
    model=f"anthropic/{MODEL}", api_base=ROOT_URL, api_key="none", messages=messages, max_tokens=12, temperature=0,
    max_retries=0,
)  # fmt: skip
assert told.choices[0].message.content == text

vectors = litellm.embedding(model=f"openai/{VECTORS}", api_base=URL, api_key="none", input=["a", "b"])
assert len(vectors.data) == 2

for wrong, kind in (
    ({"temperature": 9}, litellm.BadRequestError),
    ({"model": "openai/other"}, litellm.NotFoundError),
):
    try:
        litellm.completion(**openai | {"messages": messages, "max_tokens": 1} | wrong)
    except kind:
        pass
    else:
        raise AssertionError(f"{wrong} was taken")
tell(text=text)
