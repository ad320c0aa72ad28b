"""Requests in the shapes of programs that cannot be run here, written by hand from their documentation and sources."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

if TYPE_CHECKING:
    from daemon_process import DaemonProcess


def ask(served: DaemonProcess, path: str, body: dict[str, Any], **headers: str) -> httpx2.Response:
    response = httpx2.post(f"{served.url}{path}", json=body, headers=headers, timeout=120, trust_env=False)
    assert response.status_code == 200, response.text
    return response


def events(response: httpx2.Response) -> list[Any]:
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in data if each != "[DONE]"]


OPEN_WEBUI: dict[str, Any] = {
    "stream": True,
    "model": "small",
    "messages": [
        {"role": "system", "content": "You are helpful."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
    ],
    "params": {},
    "tool_servers": [],
    "features": {"image_generation": False, "code_interpreter": False, "web_search": False, "memory": False},
    "variables": {"{{USER_NAME}}": "Anna", "{{CURRENT_DATE}}": "2026-11-29"},
    "session_id": "sKp2",
    "chat_id": "6b1f",
    "id": "0a7c",
    "background_tasks": {"title_generation": True, "tags_generation": True},
    "stream_options": {"include_usage": True},
    "metadata": None,
    "max_tokens": 8,
    "temperature": 0,
}


def test_open_webui_chats(served: DaemonProcess) -> None:
    """It looks at the list of models first, sends what it knows of its user, and shows the usage."""
    models = httpx2.get(f"{served.url}/v1/models", headers={"Authorization": "Bearer none"}, trust_env=False).json()
    assert "small" in [model["id"] for model in models["data"]]
    told = events(ask(served, "/v1/chat/completions", OPEN_WEBUI, Authorization="Bearer none"))
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in told if event["choices"])
    assert told[-1]["usage"]["completion_tokens"] == 8


def test_open_webui_asks_for_a_title(served: DaemonProcess) -> None:
    prompt = "### Task:\nGenerate a concise title.\n### Chat History:\n<chat_history>\nUSER: Hello\n</chat_history>"
    body = {
        "model": "small", "messages": [{"role": "user", "content": prompt}], "stream": False, "max_tokens": 12,
        "metadata": {"task": "title_generation", "chat_id": "6b1f"},
    }  # fmt: skip
    assert ask(served, "/v1/chat/completions", body).json()["choices"][0]["message"]["content"]


CONTINUE: dict[str, Any] = {
    "model": "small",
    "max_tokens": 8,
    "temperature": 0.01,
    "stream": True,
    "stop": ["<|endoftext|>", "<|fim_prefix|>", "/src/", "#- coding: utf-8"],
    "prompt": "<fim_prefix>def add(a, b):\n    return <fim_suffix>\n\nprint(add(1, 2))\n<fim_middle>",
    "top_p": None,
    "presence_penalty": None,
    "frequency_penalty": None,
}


@pytest.mark.parametrize("base", ["/v1", "", "/v1/"])
def test_continue_completes_through_its_openai_provider(served: DaemonProcess, base: str) -> None:
    told = events(ask(served, f"{base}/completions", CONTINUE))
    assert all(set(event["choices"][0]) >= {"text", "index", "finish_reason"} for event in told)
    assert "fim_" not in "".join(event["choices"][0]["text"] for event in told)


def test_continue_chats_with_tools_it_may_use(served: DaemonProcess) -> None:
    tool = {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Use this tool whenever you need to view the contents of a file.",
            "parameters": {
                "type": "object",
                "required": ["filepath"],
                "properties": {"filepath": {"type": "string", "description": "The path of the file to read."}},
            },
        },
    }
    body = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "model": "small", "max_tokens": 8,
        "stream": True, "stream_options": {"include_usage": True}, "tools": [tool], "parallel_tool_calls": False,
    }  # fmt: skip
    told = events(ask(served, "/v1/chat/completions", body))
    reasons = [choice["finish_reason"] for event in told for choice in event["choices"]]
    assert reasons[-1] in ("stop", "length", "tool_calls")
    assert not any(reasons[:-1])


@pytest.mark.parametrize("path", ["/completion", "/v1/completion"])
def test_continue_completes_through_its_llama_cpp_provider(served: DaemonProcess, path: str) -> None:
    """It leaves out what is not set, reads `content`, and needs no end mark."""
    body = {"prompt": "One two three", "stream": True, "n_predict": 6, "stop": ["\n\n"], "top_k": 40, "mirostat": 0}
    told = events(ask(served, path, body))
    assert "".join(event["content"] for event in told)
    assert [event["stop"] for event in told] == [False] * (len(told) - 1) + [True]
