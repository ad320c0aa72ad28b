"""LangChain: answers, streams with usage, tools, structured output, embeddings, and the Responses API."""

from __future__ import annotations

from typing import Literal

from _program import MODEL, QUESTION, URL, VECTORS, tell
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel

settings = {"base_url": URL, "api_key": "none", "model": MODEL, "temperature": 0, "max_retries": 0}
model = ChatOpenAI(**settings, max_tokens=12)

answer = model.invoke(QUESTION)
assert answer.usage_metadata["output_tokens"] > 0
assert answer.response_metadata["finish_reason"] in ("length", "stop")

chunks = list(model.stream(QUESTION, stream_usage=True))
assert "".join(chunk.text for chunk in chunks) == answer.text
assert sum((chunk.usage_metadata or {}).get("output_tokens", 0) for chunk in chunks) == answer.usage_metadata[
    "output_tokens"
]

both = model.batch([QUESTION, QUESTION])
assert [each.text for each in both] == [answer.text] * 2


@tool
def note(mood: Literal["good", "bad"]) -> str:
    """Write a mood down."""
    return mood


tools = ChatOpenAI(**settings, max_tokens=60).bind_tools([note], tool_choice="note")
called = tools.invoke(QUESTION)
(call,) = called.tool_calls
assert call["name"] == "note"
assert call["args"]["mood"] in ("good", "bad")
streamed = None
for chunk in tools.stream(QUESTION):
    streamed = chunk if streamed is None else streamed + chunk
assert [each["args"] for each in streamed.tool_calls] == [call["args"]]
history = [HumanMessage(QUESTION), AIMessage("", tool_calls=[call]), ToolMessage("good", tool_call_id=call["id"])]
assert model.invoke(history).text


class Pair(BaseModel):
    """Two small things."""

    size: Literal["small", "large"]
    count: Literal[1, 2, 3]


for method in ("json_schema", "function_calling"):
    pair = ChatOpenAI(**settings, max_tokens=60).with_structured_output(Pair, method=method).invoke(QUESTION)
    assert isinstance(pair, Pair)

responses = ChatOpenAI(**settings, use_responses_api=True, max_tokens=12)
assert responses.invoke(QUESTION).text == answer.text
assert "".join(chunk.text for chunk in responses.stream(QUESTION)) == answer.text

vectors = OpenAIEmbeddings(base_url=URL, api_key="none", model=VECTORS, check_embedding_ctx_length=False)
first, second = vectors.embed_documents(["A cat sits on the mat.", "Revenue grew by five percent."])
again = vectors.embed_query("A kitten sits on a rug.")


def alike(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


assert alike(again, first) > alike(again, second)
tell(text=answer.text)
