"""`/v1/embeddings`: what is asked, in which pieces it is computed, and what comes back."""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest
import trio
from attrs import define, field
from scripted import MODEL, NoMetrics, ScriptedIntake

from reame.api.app import create_app
from reame.config import Config, EmbeddingsConfig, SchedulerConfig
from reame.engine.thread import InlineThread
from reame.errors import EngineError, RequestError
from reame.runtime.embeddings import Embeddings
from reame.runtime.metrics import Metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from quart.typing import TestClientProtocol
    from trio.testing import MockClock

T = TypeVar("T")


class Letters:
    """One token a character; BOS in front."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert (add_special, parse_special) == (True, False)
        return [1, *(ord(char) % 100 for char in text)] if text else []


@define(slots=False)
class FakeEmbedder:
    """Its vector counts what it was fed."""

    context: int = 50
    piece_rows: int = 8
    size: int = 3
    vocab_size: int = 100
    vocabulary: Any = field(factory=Letters)
    pieces: list[list[int]] = field(factory=list)
    num_begun: int = 0
    fails: bool = False

    def begin(self) -> None:
        self.num_begun += 1
        self.pieces = []

    def feed(self, tokens: Sequence[int]) -> None:
        if self.fails:
            raise EngineError("a secret of llama.cpp's")
        self.pieces.append(list(tokens))

    def vector(self) -> Any:
        fed = [token for piece in self.pieces for token in piece]
        found = np.array([len(fed), sum(fed), 1], np.float32)
        return found / np.linalg.norm(found)

    def close(self) -> None:
        pass


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def intake(embedder: FakeEmbedder) -> ScriptedIntake:
    made = ScriptedIntake()
    made.embeddings = Embeddings("vectors", embedder, InlineThread(), Metrics(), made.tokens, SchedulerConfig())
    return made


@pytest.fixture
def client(intake: ScriptedIntake) -> TestClientProtocol:
    config = Config(embeddings=EmbeddingsConfig(model="vectors"))
    return create_app(config, intake, NoMetrics(), ()).test_client()  # type: ignore[arg-type]


async def ask(client: TestClientProtocol, **body: Any) -> tuple[int, dict[str, Any]]:
    answer = await client.post("/v1/embeddings", json=body)
    return answer.status_code, await answer.get_json()


async def test_the_answer(client: TestClientProtocol) -> None:
    status, body = await ask(client, model="vectors", input=["ab", "c"])
    assert (status, body["object"], body["model"]) == (200, "list", "vectors")
    assert body["usage"] == {"prompt_tokens": 5, "total_tokens": 5}
    assert [item["index"] for item in body["data"]] == [0, 1]
    for item in body["data"]:
        assert np.linalg.norm(item["embedding"]) == pytest.approx(1)
    _, alone = await ask(client, input="c", model=MODEL)  # the name of the model that chats
    assert alone["data"][0]["embedding"] == body["data"][1]["embedding"]


async def test_base64_has_the_same_numbers(client: TestClientProtocol) -> None:
    _, plain = await ask(client, input="ab")
    _, packed = await ask(client, input="ab", encoding_format="base64")
    numbers = struct.unpack("<3f", b64decode(packed["data"][0]["embedding"]))
    assert list(numbers) == plain["data"][0]["embedding"]


async def test_who_leaves_pays_for_what_was_computed(intake: ScriptedIntake, embedder: FakeEmbedder) -> None:
    embeddings: Embeddings = intake.embeddings
    intake.tokens.limit = 3
    with trio.CancelScope() as scope:
        scope.cancel()
        await embeddings.embed(["ab"], key="ann", namespace="ann")
    intake.tokens.check("ann")
    with trio.CancelScope() as scope:
        computed = embedder.vector

        def leave() -> Any:
            scope.cancel()
            return computed()

        embedder.vector = leave  # type: ignore[method-assign]
        await embeddings.embed(["ab", "abc"], key="ann", namespace="ann")
    assert scope.cancelled_caught
    with pytest.raises(RequestError):
        intake.tokens.check("ann")


async def test_tokens_are_taken_as_they_are(client: TestClientProtocol, embedder: FakeEmbedder) -> None:
    status, body = await ask(client, input=[5, 6, 7])
    assert (status, embedder.pieces, body["usage"]["prompt_tokens"]) == (200, [[5, 6, 7]], 3)
    status, body = await ask(client, input=[[5, 6], [7]])
    assert len(body["data"]) == 2


async def test_a_long_text_is_fed_in_pieces(client: TestClientProtocol, embedder: FakeEmbedder) -> None:
    await ask(client, input="x" * 20)
    assert [len(piece) for piece in embedder.pieces] == [8, 8, 5]


@pytest.mark.parametrize(("is_busy", "seconds"), [(False, 6), (True, 11)])
async def test_while_others_are_answered_half_of_the_time_is_theirs(
    embedder: FakeEmbedder, autojump_clock: MockClock, is_busy: bool, seconds: float
) -> None:
    """Two texts of three pieces each, and between two pieces as long as the last one took."""

    class Slow(InlineThread):
        async def call(self, function: Callable[[], T]) -> T:
            await trio.sleep(1)
            return await super().call(function)

    model = Embeddings("vectors", embedder, Slow(), Metrics(), ScriptedIntake().tokens, SchedulerConfig())
    model.is_busy = lambda: is_busy
    await model.embed(["x" * 20, "y" * 20], key="", namespace="")
    assert trio.current_time() == seconds


async def test_the_same_text_is_computed_once(client: TestClientProtocol, embedder: FakeEmbedder) -> None:
    _, body = await ask(client, input=["ab", "ab", "c"])
    await ask(client, input="c")
    assert embedder.num_begun == 2
    assert body["data"][0]["embedding"] == body["data"][1]["embedding"]


async def test_what_is_computed_while_it_is_forgotten_is_not_kept(embedder: FakeEmbedder) -> None:
    """Neither the text that is being computed, nor those behind it in the same call."""

    calls = [True, *[False] * 9]

    class Forgetful(InlineThread):
        async def call(self, function: Callable[[], T]) -> T:
            if calls.pop(0):
                model.forget("anna")
            return await super().call(function)

    model = Embeddings("vectors", embedder, Forgetful(), Metrics(), ScriptedIntake().tokens, SchedulerConfig())
    found = await model.embed(["ab", "c"], key="", namespace="anna")
    assert len(found.vectors) == 2
    assert not model._kept
    await model.embed(["ab"], key="", namespace="anna")
    assert next(iter(model._kept))[0] == "anna"


async def test_what_was_forgotten_is_computed_again(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    assert intake.embeddings is not None
    for key in ("", "somebody else"):
        await client.post("/v1/embeddings", json={"input": "abc"})
        intake.embeddings.forget(key)
        assert len(intake.embeddings._kept) == (key != "")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "input"),
        ({"input": []}, "input"),
        ({"input": {}}, "input"),
        ({"input": 3}, "input"),
        ({"input": ""}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": ["a", 3]}, "input[1]"),
        ({"input": [[]]}, "input[0]"),
        ({"input": ["a", [1.5]]}, "input[1]"),
        ({"input": [[3, 100]]}, "input[0]"),
        ({"input": [-1]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "dimensions": 2}, "dimensions"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
    ],
)
async def test_faults(client: TestClientProtocol, embedder: FakeEmbedder, body: dict[str, Any], param: str) -> None:
    status, answer = await ask(client, **body)
    assert (status, answer["error"]["param"]) == (400, param)
    assert not embedder.num_begun


async def test_too_long_is_said_with_both_numbers(client: TestClientProtocol) -> None:
    status, body = await ask(client, input=["a", "x" * 50])
    assert (status, body["error"]["code"], body["error"]["param"]) == (400, "context_length_exceeded", "input[1]")
    assert "prompt is too long: input[1] has 51 tokens" in body["error"]["message"]
    assert "takes 50;" in body["error"]["message"]
    assert (await ask(client, input="x" * 49))[0] == 200


async def test_other_models(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    status, body = await ask(client, input="a", model="huge")
    assert (status, body["error"]["code"]) == (404, "model_not_found")
    listed = await (await client.get("/v1/models")).get_json()
    assert [model["id"] for model in listed["data"]] == ["tiny", "vectors"]
    assert (await client.get("/v1/models/vectors")).status_code == 200


async def test_without_a_model(intake: ScriptedIntake) -> None:
    bare = create_app(Config(), intake, NoMetrics(), ()).test_client()  # type: ignore[arg-type]
    status, body = await ask(bare, input="a")
    assert (status, body["error"]["code"]) == (404, "no_embeddings_model")


async def test_a_step_that_fails_tells_no_secrets(client: TestClientProtocol, embedder: FakeEmbedder) -> None:
    embedder.fails = True
    status, body = await ask(client, input="a")
    assert (status, body["error"]["code"]) == (500, "engine_error")
    assert "secret" not in body["error"]["message"]
    embedder.fails = False
    assert (await ask(client, input="a"))[0] == 200


async def test_the_day_counts_them(client: TestClientProtocol, intake: ScriptedIntake) -> None:
    intake.tokens.limit = 3
    assert (await ask(client, input="abcd"))[0] == 200
    status, body = await ask(client, input="a")
    assert (status, body["error"]["code"]) == (429, "daily_tokens_exceeded")


async def test_too_many_wait(embedder: FakeEmbedder, autojump_clock: object) -> None:
    """Every one of them gets an answer, none hangs."""
    seen: list[str] = []

    class SlowThread:
        async def call(self, function: Callable[[], Any]) -> Any:
            await trio.sleep(1)
            return function()

    slow = Embeddings("vectors", embedder, SlowThread(), Metrics(), ScriptedIntake().tokens, SchedulerConfig(queue=3))

    async def one(number: int) -> None:
        try:
            await slow.embed([(number,)], key="", namespace="")
            seen.append("ok")
        except Exception as error:
            seen.append(getattr(error, "code", "") or type(error).__name__)

    async with trio.open_nursery() as nursery:
        for number in range(4 + 5):
            nursery.start_soon(one, number)
    assert (seen.count("ok"), seen.count("queue_full")) == (4, 5)
