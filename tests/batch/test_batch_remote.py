"""A batch through a daemon that restarts, is full, or is gone: whom it waits for, and how long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import trio
from lines import body_of

from reame.batch.line import Record
from reame.commands.batch_remote import PATIENCE_S, RemoteSolver
from reame.commands.warm_work import Daemon
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from trio.testing import MockClock

RECORD = Record(number=1, id="batch_req_1", custom_id="a", url="/v1/chat/completions", body=body_of("hi"))
Step = tuple[float, int | type[httpx2.TransportError]]


class Session:
    """Answers `steps`, each after so many seconds with a status or a failure; the last one again and again."""

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.asked = 0

    async def post(self, url: str, json: Any) -> httpx2.Response:
        seconds, what = self.steps[0] if len(self.steps) == 1 else self.steps.pop(0)
        self.asked += 1
        await trio.sleep(seconds)
        if isinstance(what, int):
            return httpx2.Response(what, json={"error": {"message": "no"}} if what != 200 else {"choices": []})
        raise what("gone")

    async def get(self, url: str, **_: Any) -> httpx2.Response:
        raise httpx2.ConnectError("gone")


@pytest.fixture
def solver() -> Callable[..., tuple[RemoteSolver, Session]]:
    def make(*steps: Step) -> tuple[RemoteSolver, Session]:
        session = Session(*steps)
        return RemoteSolver(Daemon("http://127.0.0.1:1"), session, {"total": 2}), session  # type: ignore[arg-type]

    return make


async def test_a_daemon_that_ends_after_a_long_answer_may_come_back(
    solver: Callable[..., tuple[RemoteSolver, Session]], autojump_clock: MockClock
) -> None:
    """It was silent for longer than anybody waits, as it computed for others, and then restarted."""
    made, _ = solver((3 * PATIENCE_S, httpx2.ReadError), *[(0.0, httpx2.ConnectError)] * 5, (1.0, 200))
    assert (await made.solve(RECORD)).status == 200


async def test_a_daemon_that_is_gone_is_given_up_after_a_while(
    solver: Callable[..., tuple[RemoteSolver, Session]], autojump_clock: MockClock
) -> None:
    made, session = solver((0.0, httpx2.ConnectError))
    with pytest.raises(ConfigError, match="does not answer any more"):
        await made.solve(RECORD)
    assert PATIENCE_S <= trio.current_time() <= PATIENCE_S + 3
    assert session.asked > 60


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
async def test_what_passes_is_waited_for(
    solver: Callable[..., tuple[RemoteSolver, Session]], autojump_clock: MockClock, status: int
) -> None:
    """A proxy in front of a daemon that restarts says 502, and one that has waited too long 504."""
    made, session = solver(*[(0.0, status)] * 4, (0.0, 200))
    assert (await made.solve(RECORD)).status == 200
    assert session.asked == 5


async def test_a_proxy_without_a_daemon_is_given_up_too(
    solver: Callable[..., tuple[RemoteSolver, Session]], autojump_clock: MockClock
) -> None:
    made, _ = solver((0.0, 502))
    with pytest.raises(ConfigError, match="does not answer any more"):
        await made.solve(RECORD)


async def test_a_record_on_which_it_fails_is_tried_three_times(
    solver: Callable[..., tuple[RemoteSolver, Session]], autojump_clock: MockClock
) -> None:
    made, session = solver((0.0, 500))
    assert (await made.solve(RECORD)).status == 500
    assert session.asked == 3
