"""Bodies of valid requests, bent at one place (Hypothesis), and requests made of /openapi.json (schemathesis).

What must hold: no 5xx, no hang, every refusal an error object of the protocol, the server alive, memory flat.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import httpx2
from _drill import arguments, scratch, start, verdict
from _schemathesis import schemathesis
from daemon_process import status_fields
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from reame.catalog import resolve

if TYPE_CHECKING:
    from pathlib import Path

    from daemon_process import DaemonProcess

PATIENCE_S = 60
MOST_GROWTH_KB = 10.0
"""A request, as a mean over the second half."""
MODEL = "smollm2-135m"
CANNOT = {"/infill": 400, "/v1/batches": 404}
"""What this small model, without files, answers to their valid bodies; all others are 200."""
MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
TOOL = {"name": "note", "description": "x", "parameters": {"type": "object", "properties": {"a": {"type": "boolean"}}}}
USUAL: dict[str, Any] = {
    "model": MODEL, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "min_p": 0.1, "seed": 7, "stop": ["x", "yz"],
    "presence_penalty": 0.1, "frequency_penalty": 0.1, "logit_bias": {"5": -1}, "n": 2, "max_tokens": 2, "stream": True,
    "stream_options": {"include_usage": True}, "reame": {"answers": False},
}  # fmt: skip
VALID: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": USUAL
    | {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2, "response_format": {"type": "json_object"}},
    "/v1/completions": USUAL | {"prompt": ["Once", "Twice"], "logprobs": 2, "echo": True, "best_of": 2},
    "/v1/messages": {
        "model": MODEL, "max_tokens": 2, "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], "stop_sequences": ["x"],
        "tools": [{"name": "note", "input_schema": {"type": "object"}}], "tool_choice": {"type": "auto"},
        "stream": True,
    },
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/responses": {
        "model": MODEL, "input": [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
        "instructions": "Be brief.", "max_output_tokens": 2, "tools": [TOOL | {"type": "function"}], "store": False,
        "tool_choice": "auto", "text": {"format": {"type": "text"}}, "include": ["message.output_text.logprobs"],
        "stream": True,
    },
    "/v1/embeddings": {"model": "vectors", "input": ["a", "b"], "encoding_format": "base64", "dimensions": 576},
    "/v1/warm": {"prompt": "Once", "pin": True, "ttl_s": 5, "stream": True},
    "/completion": {
        "prompt": "Once", "n_predict": 2, "stop": ["x"], "n_probs": 2, "stream": True, "logit_bias": [[5, -1]],
    },
    "/infill": {
        "input_prefix": "a", "input_suffix": "", "prompt": "b", "input_extra": [{"filename": "f", "text": "t"}],
    },
    "/tokenize": {"content": "Once", "add_special": True, "with_pieces": True},
    "/detokenize": {"tokens": [1, 2, 3]},
    "/v1/batches": {
        "input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h", "metadata": {"a": "b"},
    },
}  # fmt: skip
NASTY = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=40),
    st.sampled_from([
        "", "\x00", "\u2028", "\ud800", "<|im_end|>", "{{7*7}}", "../../etc/passwd", "a" * 5000, [], {}, [[]], [{}],
        [None], [-1], [2**31], [1, "a"], {"type": "x"}, {"$ref": "#"}, -1, 0, 1e400, -0.0, 10**400, [[1]] * 30,
        {"type": "json_schema", "json_schema": {"schema": {"type": "wat"}}},
    ]),
    st.recursive(
        st.none() | st.text(max_size=5) | st.integers(), lambda inner: st.lists(inner, max_size=4), max_leaves=9
    ),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value, itself first."""
    inner: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        inner = list(value.items() if isinstance(value, dict) else enumerate(value))
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def bent(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    key, *rest = path
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = bent(value[key], tuple(rest), new)
    return copy


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, bytes]:
    """A path and a body: a valid one with one value replaced, or one that is cut or has foreign bytes in it."""
    path = draw(st.sampled_from(sorted(VALID)))
    body = VALID[path]
    if draw(st.booleans()):
        body = body | {"stream": False}
    body = bent(body, draw(st.sampled_from(places(body))), draw(NASTY))
    raw = json.dumps(body).encode()
    match draw(st.integers(0, 9)):
        case 0:
            return path, raw[: draw(st.integers(0, len(raw)))]
        case 1:
            at = draw(st.integers(0, len(raw)))
            return path, raw[:at] + draw(st.binary(max_size=4)) + raw[at:]
    return path, raw


def fault_of(response: httpx2.Response, path: str) -> str:
    """What is wrong with an answer, "" when nothing is."""
    if response.status_code >= 500:
        return f"{response.status_code} {response.text[:200]}"
    if response.status_code == 200:
        return "" if response.content else "an empty answer"
    told = response.json()
    if path.startswith("/v1/messages"):
        return "" if set(told) == {"type", "error"} and told["error"]["message"] else f"no error object: {told}"
    error = told.get("error", {})
    fine = set(error) == {"message", "type", "param", "code"} and error["message"]
    leaks = any(word in response.text for word in ("Traceback", "site-packages", ".gguf", "/root", "/home"))
    return "" if fine and not leaks else f"{response.status_code} {told}"


def bend(daemon: DaemonProcess, *, count: int, number: int) -> list[str]:
    """Sends that many bent requests; the faults."""
    faults: list[str] = []
    looks: list[int] = []
    with httpx2.Client(base_url=daemon.url, timeout=PATIENCE_S, trust_env=False) as client:

        @seed(number)
        @settings(
            max_examples=count, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(requests())
        def play(request: tuple[str, bytes]) -> None:
            path, raw = request
            try:
                response = client.post(path, content=raw, headers={"Content-Type": "application/json"})
                fault = fault_of(response, path)
            except (httpx2.HTTPError, ValueError) as error:
                fault = f"{type(error).__name__} {error}"
            if fault:
                faults.append(f"{path} {raw[:300]!r}: {fault}")
            looks.append(status_fields(daemon.process.pid)["RssAnon"])

        for path, body in VALID.items():
            status = client.post(path, json=body).status_code
            faults += [f"{path}: {status} for a valid body"] if status != CANNOT.get(path, 200) else []
        play()
        if client.get("/health").status_code != 200:
            faults.append("the server is not healthy after it")
    half = len(looks) // 2
    slope = (sum(looks[-20:]) - sum(looks[half : half + 20])) / 20 / max(1, half)
    print(f"{len(looks)} bent requests, {len(faults)} faults, RssAnon {looks[half]} -> {looks[-1]} kB")
    if count >= 1000 and slope > MOST_GROWTH_KB:
        faults.append(f"memory grows by {slope:.1f} kB a request")
    return faults


def tables(folder: Path) -> dict[str, dict[str, object]]:
    return {
        "engine": {"context": 384, "slots": 4},
        "embeddings": {"model": str(resolve(MODEL)), "id": "vectors", "context": 128},
        "sampling": {"max_tokens": 2},
        "memory": {"path": str(folder / "memory"), "disk_mb": 64},
    }


def main() -> int:
    options = arguments(__doc__, count=4000, seconds=600, examples=100, seed=1)
    with scratch() as folder, start(folder, tables(folder)) as daemon:
        daemon.wait_ready()
        faults = bend(daemon, count=options.count, number=options.seed)
        if options.seconds:
            found = schemathesis(
                daemon, folder, examples=options.examples, seconds=options.seconds, seed=options.seed
            )
            faults += found
        faults += [line for line in daemon.log.splitlines() if " ERROR " in line or "Traceback" in line]
    return verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
