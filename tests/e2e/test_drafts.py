"""Drafts on the real program: past answers make the next ones faster in steps, and never change them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest
from talking import CHAT, COMPLETIONS, ENDLESS, answer, ask, connect, say, until_idle

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Launch
    from daemon_process import DaemonProcess

pytestmark = pytest.mark.alone
ALICE, BOB = "sk-alice-0f3b9d71", "sk-bob-77aa01"
FRESH = {"reame": {"answers": False}, "logit_bias": ENDLESS}
QUESTION = say("Write three sentences about a lighthouse keeper.", 60, **FRESH)
SEEDED = QUESTION | {"temperature": 0.8, "seed": 7}


def start(launch: Launch, folder: Path, **tables: dict[str, object]) -> DaemonProcess:
    memory = {"path": str(folder)} | tables.pop("memory", {})
    return launch(engine={"slots": 4, "context": 512}, memory=memory, **tables)


@pytest.fixture(scope="module")
def plain(launch: Launch, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The same questions to a daemon that does not guess."""
    folder = tmp_path_factory.mktemp("plain")
    with start(launch, folder, speculation={"enabled": False}) as daemon:
        yield daemon.wait_ready()


async def steps(daemon: DaemonProcess, body: dict[str, Any], key: str = "") -> tuple[dict[str, Any], float]:
    """The answer, and how many steps the daemon took for it."""
    async with connect(daemon, key) as client:
        before = await until_idle(client)
        got: dict[str, Any] = await answer(client, CHAT if "messages" in body else COMPLETIONS, body)
        after = await until_idle(client)
        return got, after["step_seconds_count"] - before["step_seconds_count"]


async def test_the_second_time_costs_a_fraction_of_the_steps_also_after_a_kill(
    launch: Launch, tmp_path: Path, plain: DaemonProcess
) -> None:
    folder = tmp_path / "memory"
    expected = {seed: (await steps(plain, body))[0] for seed, body in ((None, QUESTION), (7, SEEDED))}
    daemon = start(launch, folder)
    daemon.wait_ready()
    first, cold = await steps(daemon, QUESTION)
    again, warm = await steps(daemon, QUESTION)
    assert first["choices"] == again["choices"] == expected[None]["choices"]
    assert warm < 0.7 * cold
    assert again["reame"]["accepted_tokens"] > 30
    seeded, _ = await steps(daemon, SEEDED)
    assert (seeded["choices"], seeded["usage"]["completion_tokens"]) == (expected[7]["choices"], 60)
    daemon.process.send_signal(signal.SIGKILL)
    daemon.wait_exit()
    with start(launch, folder) as daemon:
        daemon.wait_ready()
        after, few = await steps(daemon, QUESTION)
        assert after["choices"] == first["choices"]
        assert few < 0.7 * cold
        assert after["reame"]["accepted_tokens"] > first["reame"]["accepted_tokens"]


async def test_a_text_that_repeats_itself_drafts_itself(launch: Launch, tmp_path: Path, plain: DaemonProcess) -> None:
    body = ask("one two three four five six seven eight " * 6, 64, **FRESH)
    with start(launch, tmp_path / "memory", memory={"archive": False}) as daemon:
        daemon.wait_ready()
        got, few = await steps(daemon, body)
        expected, many = await steps(plain, body)
        assert got["choices"] == expected["choices"]
        saved = got["reame"]["accepted_tokens"]  # where rows are dear, hardly more than what is tried out
        assert saved > 0
        assert few <= many - saved
        assert many >= 64
        assert expected["reame"]["drafted_tokens"] == 0


async def test_what_one_key_generated_drafts_nothing_for_another(launch: Launch, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text(f"alice:{ALICE}\nbob:{BOB}\n")
    keys.chmod(0o600)
    with start(launch, tmp_path / "memory", server={"api_keys_file": str(keys)}) as daemon:
        daemon.wait_ready()
        first, cold = await steps(daemon, QUESTION, ALICE)
        other, also_cold = await steps(daemon, QUESTION, BOB)
        again, warm = await steps(daemon, QUESTION, ALICE)
        assert first["choices"] == other["choices"] == again["choices"]
        assert also_cold > 0.8 * cold
        assert warm < 0.7 * cold
