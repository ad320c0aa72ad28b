"""What a scenario is: what it shows, whom it favours, and how one run of it is measured on one server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import Factory, define, field, frozen

from bench.client import Part, play
from bench.errors import BenchError
from bench.sides import LLAMA_SERVER, REAME, Server, Side

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.llama_bench import Test
    from bench.prompts import Prompts
    from bench.remote import Remote
    from bench.sse import Reply
    from bench.stats import Better, Goal

MOST_CACHED = 8
"""Prompt tokens that a server may have had already (a BOS, a shared first word); more is a fault of the scenario."""


@frozen(kw_only=True)
class Metric:
    """One number that a run gives. `name` is its key in the JSON; `title` and `unit` are for people."""

    name: str
    title: str
    unit: str
    better: Better = "higher"
    goals: tuple[Goal, ...] = ()


@frozen(kw_only=True)
class Scale:
    """How much work a run is: full, or quick for minutes."""

    answer_tokens: int = 128
    long_prompt: int = 2000
    short_prompt: int = 512
    questions: int = 40
    records: int = 1000
    documents: int = 100
    messages: int = 40
    keys: int = 500
    typing_s: float = 240
    day: int = 64


FULL = Scale()
QUICK = Scale(
    answer_tokens=64,
    long_prompt=1000,
    short_prompt=256,
    questions=10,
    records=48,
    documents=20,
    messages=12,
    keys=40,
    typing_s=60,
    day=24,
)


@define
class Run:
    """One run on one server: asks, and remembers what proves that both sides did the same work."""

    server: Server | Remote
    prompts: Prompts
    scale: Scale
    texts: list[str] = field(factory=list)
    prompt_tokens: list[int] = field(factory=list)
    curves: dict[str, list[tuple[float, float]]] = field(factory=dict)
    """What is a line rather than a number, by name: for the JSON and the plots."""

    @property
    def port(self) -> int:
        return self.server.port

    def ask(self, *parts: Part, cold: bool = True) -> list[Reply]:
        """Play `parts`; with `cold`, raises BenchError when a prompt came from a cache, for then its time says nothing.
        The texts of cold parts are compared between the sides."""
        replies = play(self.server.address, parts)
        for reply in replies:
            if cold and reply.cached_tokens > MOST_CACHED:
                raise BenchError(f"{reply.cached_tokens} tokens of a new prompt came from a cache: not a cold run")
            if reply.ended is not None:
                self.texts.append(reply.text)
                self.prompt_tokens.append(reply.prompt_tokens)
        return replies


def completion(prompt: str, max_tokens: int) -> dict[str, Any]:
    """The body that every side gets: plain continuation of `prompt`, greedy, streamed, with the counts at its end."""
    return {
        "prompt": prompt,
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def chat(text: str, max_tokens: int, **more: Any) -> dict[str, Any]:
    """The same for a question to the model's chat template. Old answers are not given again: decoding is measured."""
    body = completion("", max_tokens) | {"messages": [{"role": "user", "content": text}], "reame": {"answers": False}}
    del body["prompt"]
    return body | more


@frozen(kw_only=True)
class Scenario:
    """`measure` returns a value for each of `metrics`. `tests`: the same metrics by llama-bench, if it can tell."""

    name: str
    title: str
    shows: str
    favours: str
    metrics: tuple[Metric, ...]
    measure: Callable[[Run], dict[str, float]]
    users: int = 1
    context: int = 4096
    cells: int = 8192
    ours: Side = REAME
    """Without drafts where they would be flattered: greedy answers to meaningless prompts soon repeat themselves."""
    rivals: tuple[Side, ...] = (LLAMA_SERVER,)
    by_default: bool = True
    """It is played when none is named; one that takes long is not."""
    most_rounds: int = 99
    """It takes long: no more rounds, unless they are asked for."""
    weight: float = 1.0
    """Its share of the time, where that is limited, beside those of the others."""
    models: str = ""
    """Only for models whose file name contains this."""
    drafts: bool = False
    """Some sides have a draft model."""
    restarts: bool = False
    """It restarts the servers, so it cannot be played against a URL."""
    tests: Callable[[Scale], tuple[Test, ...]] = Factory(lambda: lambda _scale: ())
