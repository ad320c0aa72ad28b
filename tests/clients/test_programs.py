"""Other people's clients, each as a program of its own (`programs/`): what it checks itself, it has checked; and it got
the text that a plain request gets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest

if TYPE_CHECKING:
    from daemon_process import DaemonProcess

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_S = 240
MODEL, VECTORS = "small", "small-vectors"
PYTHON = {
    "anthropic_client": "python",
    "instructor_client": "llamaindex",
    "langchain_client": "python",
    "litellm_client": "python",
    "llamaindex_client": "llamaindex",
}


@pytest.fixture(scope="module")
def plain(served: DaemonProcess) -> str:
    body = {
        "messages": [{"role": "user", "content": "Name three rivers."}], "max_tokens": 12, "temperature": 0,
    }  # fmt: skip
    answer = httpx2.post(f"{served.url}/v1/chat/completions", json=body, timeout=PATIENCE_S, trust_env=False)
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


def run(words: list[str], folder: Path, served: DaemonProcess) -> str:
    """The text that the program got. It needs no network but the daemon's, and no home."""
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "TEST_URL": f"{served.url}/v1",
        "TEST_MODEL": MODEL,
        "TEST_VECTORS": VECTORS,
        "NO_PROXY": "*",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    text: str = json.loads(done.stdout.splitlines()[-1])["text"]
    return text.strip()


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_client(name: str, clients: Path, served: DaemonProcess, plain: str, tmp_path: Path) -> None:
    python = clients / PYTHON[name] / "bin" / "python"
    assert run([str(python), str(PROGRAMS / f"{name}.py")], tmp_path, served) == plain.strip()


@pytest.mark.parametrize("name", ["openai_client", "ai_sdk_client"])
def test_a_node_client(name: str, clients: Path, served: DaemonProcess, plain: str) -> None:
    """Node looks for packages beside the program."""
    program = shutil.copy(PROGRAMS / f"{name}.mjs", clients / "node")
    assert run(["node", str(program)], clients / "node", served) == plain.strip()


def test_the_llm_command(clients: Path, served: DaemonProcess, plain: str, tmp_path: Path) -> None:
    command = [str(PROGRAMS / "llm_command.sh"), str(clients / "python" / "bin" / "llm")]
    assert run(["bash", *command], tmp_path, served) == plain.strip()
