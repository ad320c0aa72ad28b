"""A line of a batch means what the same body means over HTTP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from scripted import ScriptedIntake

from reame.api import batch_local
from reame.api.batch_local import LocalSolver
from reame.api.schema_completion import read_completion
from reame.batch.line import COMPLETION, Record
from reame.config import ConclaveConfig, Config
from reame.core.request import Call, Sampling

if TYPE_CHECKING:
    import pytest

    from reame.api.schema import Limits, Wanted
    from reame.runtime.intake import Intake


async def called(**body: Any) -> tuple[Call, dict[str, Any]]:
    """What it asks for, and the answer."""
    intake: Any = ScriptedIntake()
    config = Config(conclave=ConclaveConfig(candidates=3, margin=0.25))
    solver = LocalSolver(config, _as_intake(intake), Sampling(temperature=0))
    record = Record(number=1, id="batch_req_1", custom_id="r1", url=COMPLETION, body=body)
    outcome = await solver.solve(record)
    assert outcome.status == 200
    return intake.call, dict(outcome.body)


def _as_intake(intake: Any) -> Intake:
    made: Intake = intake
    return made


async def test_the_conclave_is_that_of_the_config() -> None:
    call, _ = await called(prompt="x", best_of="auto")
    assert call.conclave is not None
    assert (call.conclave.size, call.conclave.margin) == (3, 0.25)


async def test_a_body_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have 16 MiB."""
    threads = []

    def read(raw: bytes, limits: Limits) -> Wanted:
        threads.append(threading.get_ident())
        return read_completion(raw, limits)

    monkeypatch.setattr(batch_local, "read_completion", read)
    await called(prompt="x" * 100_000)
    assert threads
    assert threading.get_ident() not in threads


async def test_token_ids_are_echoed_as_their_text() -> None:
    _, body = await called(prompt=[40, 41], echo=True)
    assert body["choices"][0]["text"] == "HIHello"
