"""Records of products, overnight: one instruction of about 600 tokens, a schema of six fields, as many as one likes.

Shows records a minute from the file of requests to the file of answers. Reame's side is `reame batch` against its
daemon, its start included; llama-server's an asynchronous client that keeps all slots busy, with the same schema; both
get the records in the same order, which is none. Favours Reame, which is made for this. llama-server runs with 4, 8 and
16 slots, as it depends on machine and model which is the fastest. Each round has an instruction and records of its own.
Where the kernel tells (RAPL), there is the energy of a record too, of the whole processor with all that runs on it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx2
import trio

from bench.energy import Energy
from bench.errors import BenchError
from bench.scenario import Metric, Run, Scenario
from bench.sides import LLAMA_SERVER, Side
from bench.stats import Goal

USERS = 16
LONGEST_S = 7200.0
KINDS = ("furniture", "lighting", "kitchen", "clothing", "tool", "toy", "book", "other")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "kind": {"enum": list(KINDS)},
        "colour": {"enum": ["white", "black", "brown", "green", "gold", "silver", "none"]},
        "material": {"enum": ["wood", "metal", "glass", "paper", "cloth", "stone", "unknown"]},
        "electric": {"type": "boolean"},
        "age_group": {"enum": ["child", "adult", "any"]},
        "title": {"type": "string", "maxLength": 30},
    },
    "required": ["kind", "colour", "material", "electric", "age_group", "title"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "product", "schema": SCHEMA, "strict": True}}


def bodies(run: Run) -> list[dict[str, Any]]:
    prompts = run.prompts
    instruction = f"You sort the products of a shop into a table. The rules: {prompts.text(580)}."
    return [
        {
            "messages": [
                {"role": "system", "content": instruction},
                {"role": "user", "content": f"Product {number}: {prompts.text(30)}."},
            ],
            "temperature": 0,
            "max_tokens": 96,
            "response_format": FORMAT,
        }
        for number in range(run.scale.records)
    ]


def measure(run: Run) -> dict[str, float]:
    asked = bodies(run)
    energy, started = Energy.now(), perf_counter()
    answers = by_command(run, asked) if run.server.side.kind == "reame" else trio.run(by_client, run, asked)
    seconds = perf_counter() - started
    joules = energy.joules() if energy else None
    for answer in answers:
        run.prompt_tokens.append(answer["usage"]["prompt_tokens"])
    is_whole = [set(json.loads(text)) == set(SCHEMA["required"]) for text in map(content, answers) if is_json(text)]
    values = {
        "records": 60 * len(asked) / seconds,
        "answer_tokens": sum(answer["usage"]["completion_tokens"] for answer in answers) / len(asked),
        "whole": sum(is_whole) / len(asked),
    }
    return values if joules is None else values | {"joules": joules / len(asked)}


def content(answer: dict[str, Any]) -> str:
    return str(answer["choices"][0]["message"]["content"])


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def by_command(run: Run, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`reame batch`; old answers are not given again, drafts from what was answered before are."""
    with tempfile.TemporaryDirectory(prefix="reame-bench-") as folder:
        source, output = Path(folder) / "in.jsonl", Path(folder) / "out.jsonl"
        with source.open("w", encoding="utf-8") as file:
            for number, body in enumerate(asked):
                line = {"custom_id": str(number), "method": "POST", "url": "/v1/chat/completions", "body": body}
                file.write(json.dumps(line) + "\n")
        words = [str(Path(sys.executable).with_name("reame")), "batch", str(source), "-o", str(output)]
        words += ["--url", run.server.address.url]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchError(f"reame batch ended with status {done.returncode}: {done.stderr.strip()[-300:]}")
        return [json.loads(line)["response"]["body"] for line in output.read_text("utf-8").splitlines()]


async def by_client(run: Run, asked: list[dict[str, Any]]) -> list[dict[str, Any]]:
    address = run.server.address
    waiting, answers = deque(asked), list[dict[str, Any]]()
    refusals: list[str] = []
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)

    async def work() -> None:
        while waiting:
            response = await client.post("/v1/chat/completions", json=address.told(waiting.popleft()))
            refusals.extend([response.text[:300]] if response.status_code != 200 else [])
            if refusals:
                return
            answers.append(response.json())

    async with (
        httpx2.AsyncClient(
            base_url=address.url, headers=address.authorization, timeout=LONGEST_S, limits=limits, trust_env=False
        ) as client,
        trio.open_nursery() as nursery,
    ):
        for _ in range(slots_of(run.server.side)):
            nursery.start_soon(work)
    if refusals:
        raise BenchError(f"{run.server.side.label} refused a record: {refusals[0]}")
    return answers


def slots_of(side: Side) -> int:
    return int(side.args[side.args.index("--parallel") + 1]) if "--parallel" in side.args else USERS


SCENARIO = Scenario(
    name="nightly",
    title="Records with one instruction and a schema",
    shows="records a minute, from a file of requests to a file of answers",
    favours="Reame, which is made for this",
    metrics=(
        Metric(name="records", title="answered", unit="records/min", goals=(Goal("ratio", 2.0),)),
        Metric(name="joules", title="energy of a record (RAPL)", unit="J", better="lower"),
        Metric(name="answer_tokens", title="length of an answer", unit="tokens"),
        Metric(name="whole", title="answers that fit the schema", unit="share"),
    ),
    measure=measure,
    users=USERS,
    cells=16_384,
    rivals=(
        LLAMA_SERVER,
        Side("llama-server, 8 slots", "llama-server", ("--parallel", "8")),
        Side("llama-server, 4 slots", "llama-server", ("--parallel", "4")),
    ),
    by_default=False,
)
