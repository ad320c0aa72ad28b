"""Models whose files say less, or other things, about text than one expects: the start of a text, the chat template."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest
import trio
from streams import stream
from talking import CHAT, COMPLETIONS, ENDLESS, answer, ask, connect, say

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess

BOOL = 7
"""GGUF's number for that type."""
BOS = "<|im_start|>"
"""SmolLM2's beginning of a text, were it asked to begin with one: token 1."""
ENGINE: dict[str, object] = {"slots": 2, "context": 512}


@pytest.fixture(scope="module")
def odd_model(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SmolLM2, which is told to begin texts with its BOS, and whose template is gone (its key has another name)."""
    data = model_path.read_bytes()
    key = b"tokenizer.ggml.add_bos_token" + struct.pack("<I", BOOL)
    assert data.count(key + b"\0") == 1
    assert data.count(b"tokenizer.chat_template") == 1
    data = data.replace(key + b"\0", key + b"\1").replace(b"tokenizer.chat_template", b"tokenizer.chat_templatX")
    path = tmp_path_factory.mktemp("odd") / "odd.gguf"
    path.write_bytes(data)
    return path


@pytest.fixture(scope="module")
def without_template(launch: Launch, odd_model: Path) -> Iterator[DaemonProcess]:
    with launch(engine=ENGINE, model={"path": str(odd_model)}) as daemon:
        yield daemon.wait_ready()


async def test_exactly_one_beginning_of_a_text(without_template: DaemonProcess, daemon: DaemonProcess) -> None:
    """Written out or not it is the same prompt, with the same answer and the same memory."""
    text = "The three primary colours of light are"
    async with connect(without_template) as client, connect(daemon) as plain:
        bare = await answer(client, COMPLETIONS, ask(text, 4, logit_bias=ENDLESS))
        written = await answer(client, COMPLETIONS, ask(BOS + text, 4, logit_bias=ENDLESS))
        none = await answer(plain, COMPLETIONS, ask(text, 4, logit_bias=ENDLESS))
    count = bare["usage"]["prompt_tokens"]
    assert count == none["usage"]["prompt_tokens"] + 1, "the model that wants one gets one, the other gets none"
    assert written["usage"]["prompt_tokens"] == count
    assert written["choices"][0]["text"] == bare["choices"][0]["text"]
    assert written["usage"]["prompt_tokens_details"]["cached_tokens"] == count - 1


async def test_a_model_without_a_template(without_template: DaemonProcess) -> None:
    """A warning at the start; a chat is refused with what to do; a text is continued, and its length holds."""
    without_template.wait_for("WARNING .*no chat template.*model.chat_template")
    async with connect(without_template) as client:
        for more in ({}, {"stream": True}):
            response = await client.post(CHAT, json=say("Hello") | more)
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (400, "no_chat_template")
            assert "/v1/completions" in error["message"]
            assert "model.chat_template" in error["message"]
        told = await stream(client, COMPLETIONS, ask("Hello", 5, logit_bias=ENDLESS))
        assert told.reasons == {0: "length"}


def written(path: Path, data: str | bytes) -> str:
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)


async def test_a_template_of_the_operator_s(
    launch: Launch, odd_model: Path, tmp_path: Path, without_template: DaemonProcess
) -> None:
    """It writes a BOS, as many do, and the tokenizer would add one: the prompt has one all the same."""
    source = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %} and"
    own = {"path": str(odd_model), "chat_template": written(tmp_path / "own.jinja", source)}
    with launch(engine=ENGINE, model=own) as daemon:
        async with connect(daemon.wait_ready()) as client, connect(without_template) as other:
            chat = await answer(client, CHAT, say("Red, green", 4, logit_bias=ENDLESS))
            text = await answer(other, COMPLETIONS, ask("Red, green and", 4, logit_bias=ENDLESS))
        assert "no chat template" not in daemon.log
    assert chat["usage"]["prompt_tokens"] == text["usage"]["prompt_tokens"]
    assert chat["choices"][0]["message"]["content"] == text["choices"][0]["text"]


def test_a_broken_template_of_the_operator_s_is_said_at_the_start(
    launch: Launch, odd_model: Path, tmp_path: Path
) -> None:
    broken = written(tmp_path / "own.jinja", "{% for m in messages %}{{ m.content }}")
    for path in (broken, str(tmp_path / "gone.jinja")):
        with launch(engine=ENGINE, model={"path": str(odd_model), "chat_template": path}) as daemon:
            assert daemon.wait_exit() == 1
        assert "Traceback" not in daemon.log
        assert daemon.lines[-1].startswith("reame: ")
        assert "template" in daemon.lines[-1]


async def test_a_broken_template_of_the_model_s_own_is_a_missing_one(
    launch: Launch, tmp_path: Path, model_path: Path
) -> None:
    data = await trio.Path(model_path).read_bytes()
    assert data.count(b"{% for message in messages %}") == 1
    data = data.replace(b"{% for message in messages %}", b"{% fro message in messages %}")
    with launch(engine=ENGINE, model={"path": written(tmp_path / "broken.gguf", data)}) as daemon:
        daemon.wait_ready().wait_for("WARNING .*chat template is broken.*model.chat_template")
        async with connect(daemon) as client:
            assert (await answer(client, COMPLETIONS, ask("Hello", 2)))["choices"]
            response = await client.post(CHAT, json=say("Hello"))
            assert (response.status_code, response.json()["error"]["code"]) == (400, "no_chat_template")
