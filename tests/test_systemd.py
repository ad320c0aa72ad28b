"""The units, and what runs as root beside them.

systemd's own judgement is asked where it is installed (`systemd-analyze`, which needs no running systemd).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from scripts_checkout import ROOT

if TYPE_CHECKING:
    from pathlib import Path

UNITS = ROOT / "systemd"
PROGRAM = "/opt/reame"
MOST_EXPOSED = 1.5
"""Of 10, as `systemd-analyze security` counts."""


class Unit(dict[str, dict[str, list[str]]]):
    """Section -> key -> values, in the order of the file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        keys: dict[str, list[str]] = {}
        for line in text.splitlines():
            if section := re.fullmatch(r"\[(\w+)\]", line):
                keys = self.setdefault(section[1], {})
            elif line and not line.startswith("#"):
                key, equals, value = line.partition("=")
                assert equals, line
                keys.setdefault(key, []).append(value)


@pytest.fixture(scope="module")
def service() -> dict[str, list[str]]:
    return Unit((UNITS / "reame.service").read_text())["Service"]


def test_the_service_is_what_the_daemon_expects(service: dict[str, list[str]]) -> None:
    assert service["Type"] == ["notify"]
    assert service["ExecStart"] == [f"{PROGRAM}/.venv/bin/reame serve --config /etc/reame/reame.toml"]
    assert service["ExecReload"][-1] == "/bin/kill -HUP $MAINPID"
    assert service["DynamicUser"] == ["yes"]
    for place in ("State", "Cache", "Runtime"):
        assert service[f"{place}Directory"] == ["reame"]
    assert service["LimitMEMLOCK"] == ["infinity"]
    assert "WatchdogSec" in service
    assert {"StartLimitIntervalSec", "StartLimitBurst"} <= Unit((UNITS / "reame.service").read_text())["Unit"].keys()


def test_no_prompt_ends_in_a_core_dump_and_nothing_is_readable_for_others(service: dict[str, list[str]]) -> None:
    assert (service["LimitCORE"], service["UMask"], service["CacheDirectoryMode"]) == (["0"], ["0077"], ["0700"])


def test_the_socket_is_on_loopback_and_on_the_default_port() -> None:
    config = (ROOT / "etc" / "reame.toml").read_text()
    host, port = re.search(r'^host = "(.*)"$', config, re.M), re.search(r"^port = (\d+)$", config, re.M)
    assert host is not None
    assert port is not None
    assert Unit((UNITS / "reame.socket").read_text())["Socket"]["ListenStream"] == [f"{host[1]}:{port[1]}"]


def test_it_is_shut_in(service: dict[str, list[str]]) -> None:
    yes = [
        "LockPersonality", "MemoryDenyWriteExecute", "NoNewPrivileges", "PrivateDevices", "PrivateTmp", "PrivateUsers",
        "ProtectClock", "ProtectControlGroups", "ProtectHostname", "ProtectKernelLogs", "ProtectKernelModules",
        "ProtectKernelTunables", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
    ]  # fmt: skip
    assert {key: service.get(key) for key in yes} == {key: ["yes"] for key in yes}
    assert service["ProtectSystem"] == ["strict"]
    assert service["CapabilityBoundingSet"] == [""]
    assert service["SystemCallFilter"][0] == "@system-service"


def test_it_may_ask_which_memory_can_lie_in_huge_pages(service: dict[str, list[str]]) -> None:
    """`engine/huge_pages.py` does; mincore is in no group that systemd 252 lets a service have."""
    assert "mincore" in service["SystemCallFilter"][1:]


if shutil.which("systemd-analyze"):

    def judged(folder: Path, *words: str) -> str:
        """What systemd says of the units as they would be with this checkout as the program."""
        for name in ("reame.service", "reame.socket"):
            (folder / name).write_text((UNITS / name).read_text().replace(PROGRAM, str(ROOT)))
        done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, check=False, cwd=folder)
        return done.stdout + done.stderr

    def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
        """For a misspelt key its exit code is 0 all the same, but it says something."""
        assert judged(tmp_path, "verify", "./reame.service", "./reame.socket") == ""

    def test_it_is_hardly_exposed(tmp_path: Path) -> None:
        said = judged(tmp_path, "security", "--offline=yes", "./reame.service")
        level = re.search(r"Overall exposure level for reame\.service: ([\d.]+)", said)
        assert level is not None, said
        assert float(level[1]) <= MOST_EXPOSED


def test_keys_are_handed_over_whole_and_for_the_daemon_alone(tmp_path: Path) -> None:
    keys, copy = tmp_path / "etc-keys", tmp_path / "run" / "api-keys"
    copy.parent.mkdir(mode=0o700)
    script = (UNITS / "hand-over-keys").read_text().replace("/etc/reame/api-keys", str(keys))

    def hand_over() -> None:
        environ = {"PATH": os.environ["PATH"], "RUNTIME_DIRECTORY": str(copy.parent)}
        subprocess.run(["sh", "-c", script], env=environ, check=True)

    hand_over()
    assert list(copy.parent.iterdir()) == [], "no keys, no copy, and no failure"
    keys.write_text("ann:sk-one\n")
    keys.chmod(0o644)
    hand_over()
    assert copy.read_text() == "ann:sk-one\n"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    keys.unlink()
    hand_over()
    assert list(copy.parent.iterdir()) == []
