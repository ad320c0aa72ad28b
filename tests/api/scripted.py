"""An intake that plays a script instead of running a model, and a real server in front of it."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from attrs import define, field, frozen
from httpx2 import AsyncClient

from reame.api.app import create_app
from reame.api.listen import listen
from reame.api.server import serve
from reame.config import Config, ServerConfig
from reame.core.events import Delta, Finish, Usage
from reame.engine.base import ModelInfo
from reame.runtime.allowance import DailyTokens
from reame.runtime.room import Room

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Sequence

    from reame.core.events import Event, FinishReason
    from reame.core.request import Call

MODEL = "tiny"
PATIENCE_S = 120.0
"""Seconds after which something that should have come counts as hanging; nothing is measured against it."""
Step = tuple[int, "Event"] | trio.Event | Exception
"""What a scripted answer does next: tell an event, wait for something, or fail as a bug would."""


def finish(reason: FinishReason = "stop", *, prompt: int = 5, cached: int = 2, completion: int = 2) -> Finish:
    usage = Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=completion)
    return Finish(reason=reason, usage=usage)


def hello(call: Call) -> list[Step]:
    """Every choice says "Hello" in two pieces, all choices side by side."""
    choices = range(len(call.prompts) * call.n)
    texts = [(index, Delta(text=text)) for text in ("Hel", "lo") for index in choices]
    return [*texts, *((index, finish()) for index in choices)]


class ScriptedReplies:
    def __init__(self, call: Call, steps: Iterable[Step]) -> None:
        self.request_id = "0123456789abcdef"
        self.num_choices = len(call.prompts) * call.n
        self.prompt_tokens = 5 * len(call.prompts)
        self.prompts = tuple((1, 2, 3, 4, 5) for _ in call.prompts)
        self.is_cut = False
        self._steps = iter(steps)
        self._finished = 0

    def __aiter__(self) -> ScriptedReplies:
        return self

    async def __anext__(self) -> tuple[int, Event]:
        await trio.lowlevel.checkpoint()
        if self._finished == self.num_choices:
            raise StopAsyncIteration
        for step in self._steps:
            if isinstance(step, trio.Event):
                await step.wait()
            elif isinstance(step, Exception):
                raise step
            else:
                self._finished += isinstance(step[1], Finish)
                return step
        raise AssertionError("the script ended before the last Finish")

    def ready(self) -> tuple[int, Event] | None:
        """Nothing comes in groups here; `tests/api/test_groups.py` has streams in which it does."""
        return None


@frozen(kw_only=True)
class Health:
    status: str
    detail: str
    slots_total: int = 4
    slots_busy: int = 0
    slots_background: int = 4
    queue_depth: int = 0
    oldest_wait_s: float = 0.0


INFO = ModelInfo(
    name="Tiny", vocab_size=100, context_trained=512, eog_tokens=frozenset({2}), bos_token=1, adds_bos=True
)


class Letters:
    """Every token is a letter, but for 0, which is `<0>`, and 1, the BOS."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [*([1] if add_special else []), *(2 + ord(char) % 90 for char in text)]

    def piece(self, token: int) -> bytes:
        return self.spelled(token) if token > 1 else b""

    def spelled(self, token: int) -> bytes:
        return b"<0>" if token == 0 else b"<bos>" if token == 1 else b"\xc3" if token == 99 else b"%c" % (32 + token)


LETTERS = Letters()


@frozen(kw_only=True)
class Model:
    id: str = MODEL
    context: int = 512
    fingerprint: str = "fp_test"
    info: ModelInfo = INFO
    vocabulary: Letters = LETTERS


@define
class ScriptedIntake:
    """`opened`: who called with what; `left`: how many calls have ended; `refusal`: raised instead of an answer."""

    script: Callable[[Call], Sequence[Step]] = hello
    refusal: Exception | None = None
    status: str = "ready"
    detail: str = "serving tiny"
    model_id: str = MODEL
    created: int = 1_700_000_000
    model: Model | None = field(factory=Model)
    opened: list[tuple[Call, str, str]] = field(factory=list)
    left: int = 0
    all_left: trio.Event = field(factory=trio.Event)
    keeps_texts: bool = True
    tokens: DailyTokens = field(factory=DailyTokens)
    room: Room = field(factory=lambda: Room(Config()))
    embeddings: Any = None
    texts: dict[tuple[str, str], str] = field(factory=dict)

    @property
    def call(self) -> Call:
        """The last call that came in."""
        return self.opened[-1][0]

    def is_ready(self) -> bool:
        return self.status == "ready"

    def era(self, namespace: str) -> int:
        return 0

    def keep_text(self, name: str, text: str, *, namespace: str, era: int = 0) -> None:
        self.texts[namespace, name] = text

    async def drop_text(self, name: str, *, namespace: str) -> bool:
        return self.texts.pop((namespace, name), None) is not None

    async def text(self, name: str, *, namespace: str) -> str | None:
        return self.texts.get((namespace, name))

    def health(self) -> Health:
        return Health(status=self.status, detail=self.detail)

    @asynccontextmanager
    async def open(self, call: Call, *, key: str, namespace: str) -> AsyncIterator[ScriptedReplies]:
        if self.refusal is not None:
            raise self.refusal
        self.opened.append((call, key, namespace))
        try:
            yield ScriptedReplies(call, self.script(call))
        finally:
            self.left += 1
            self.all_left.set()


class NoMetrics:
    def refresh(self) -> None:
        pass

    def render(self) -> bytes:
        return b"# TYPE reame_steps_total counter\nreame_steps_total 7.0\n"


@frozen
class Served:
    """A server on a free port of this machine."""

    url: str
    intake: ScriptedIntake
    http: AsyncClient
    stop: trio.Event
    connections: AsyncExitStack

    async def raw(self, data: bytes) -> trio.SocketStream:
        """A TCP connection on which `data` has been sent; closed at the end."""
        stream = await trio.open_tcp_stream("127.0.0.1", int(self.url.rsplit(":", 1)[1]))
        await self.connections.enter_async_context(stream)
        await stream.send_all(data)
        return stream


@asynccontextmanager
async def serving(intake: ScriptedIntake, *, cancel_at_end: bool = False, **server: Any) -> AsyncIterator[Served]:
    """Serve `intake` with these `[server]` settings; at the end, shut down (or cancel) and wait for it."""
    config = Config(server=ServerConfig(**({"grace_s": 0.0} | server)))
    app = create_app(config, intake, NoMetrics(), ())
    stop = trio.Event()
    with trio.fail_after(PATIENCE_S):
        async with trio.open_nursery() as nursery:
            run = partial(serve, app, config, shutdown_trigger=stop.wait, sockets=listen("127.0.0.1", 0))
            (url,) = await nursery.start(run)
            async with AsyncClient(base_url=url, timeout=PATIENCE_S) as http, AsyncExitStack() as connections:
                yield Served(url, intake, http, stop, connections)
            stop.set()
            if cancel_at_end:
                nursery.cancel_scope.cancel()


def chat_body(**extra: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], **extra}
