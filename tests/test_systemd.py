"""The units, what runs as root beside them, and the script that installs them.

systemd's own judgement is asked where it is installed (`systemd-analyze`, which needs no running systemd).
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tomllib
from typing import TYPE_CHECKING

import pytest
from scripts_checkout import ROOT

from reame.config_load import load_config

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


SETUP = """#!/bin/sh
program=$(dirname "$(dirname "$0")")
mkdir -p "$program/.venv/bin"
ln -sf /bin/sh "$program/.venv/bin/python"
cat >"$program/.venv/bin/reame" <<'END'
#!/bin/sh
echo "reame $*" >>"$CALLS"
touch "$REAME_MODELS/$2.gguf"
END
chmod 755 "$program/.venv/bin/reame"
"""


class Machine:
    """A checkout to install, and a folder that stands for `/`. The script is real, and so is all that it does to files;
    set-up and systemctl only say that they were called.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self.checkout, self._calls = folder / "machine", folder / "a checkout", folder / "calls"
        for part in ("etc", "systemd"):
            shutil.copytree(ROOT / part, self.checkout / part)
        for part in ("reame/__init__.py", "scripts/setup", "pyproject.toml", "README.md"):
            (self.checkout / part).parent.mkdir(exist_ok=True)
            (self.checkout / part).write_text(SETUP if part == "scripts/setup" else "")
            (self.checkout / part).chmod(0o755)
        for place in ("opt", "etc/systemd/system", "usr/local/bin", "var/lib", "var/cache", "bin"):
            (self.root / place).mkdir(parents=True)
        places = r"(?<![\w/])/(?=opt/reame|etc/reame|etc/systemd/system|usr/local/bin/reame|var/(?:lib|cache)/)"
        text = re.sub(places, f"{self.root}/", (ROOT / "scripts/install-service").read_text())
        self.script = self.checkout / "scripts" / "install-service"
        self.script.write_text(text.replace("((EUID == 0))", "true"))
        self.script.chmod(0o755)
        (self.root / "bin/systemctl").write_text('#!/bin/sh\necho "systemctl $*" >>"$CALLS"\n')
        (self.root / "bin/systemctl").chmod(0o755)

    def run(self, *arguments: str, code: int = 0) -> str:
        environ = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "HOME": str(self.root), "CALLS": str(self._calls)}
        done = subprocess.run(
            [self.script, *arguments], env=environ, capture_output=True, text=True, check=False, cwd="/"
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def calls(self) -> list[str]:
        """Of systemctl and reame since the last look."""
        made = self._calls.read_text().splitlines() if self._calls.exists() else []
        self._calls.unlink(missing_ok=True)
        return made

    def files(self) -> set[str]:
        """All but the program's own."""
        files = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file()}
        return {name for name in files if not name.startswith(("opt/", "bin/"))}

    def config(self) -> dict[str, dict[str, object]]:
        return tomllib.loads((self.root / "etc/reame/reame.toml").read_text())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


UNIT_FILES = {"etc/systemd/system/reame.service", "etc/systemd/system/reame.socket"}
CONFIG_FILES = {"etc/reame/reame.toml", "etc/reame/api-keys"}


def test_install(machine: Machine) -> None:
    machine.run()
    assert machine.files() == {
        *UNIT_FILES, *CONFIG_FILES, "usr/local/bin/reame", "var/lib/reame/models/smollm2-135m.gguf",
    }  # fmt: skip
    assert machine.calls() == [
        "reame pull smollm2-135m", "systemctl daemon-reload", "systemctl enable reame.service",
        "systemctl restart reame.service",
    ]  # fmt: skip
    keys = machine.root / "etc/reame/api-keys"
    assert re.fullmatch(r"main:sk-[0-9a-f]{48}\n", keys.read_text())
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600
    assert machine.config()["server"]["api_keys_file"] == "/run/reame/api-keys"
    assert load_config(machine.root / "etc/reame/reame.toml").config.server.api_keys_file == "/run/reame/api-keys"
    assert os.access(machine.root / "opt/reame/systemd/hand-over-keys", os.X_OK)


def test_what_a_person_has_written_stays(machine: Machine) -> None:
    machine.run()
    keys, config = machine.root / "etc/reame/api-keys", machine.root / "etc/reame/reame.toml"
    keys.write_text("ann:sk-one\n")
    config.write_text(config.read_text().replace("port = 8080", "port = 9000 # mine"))
    machine.run("--model", "qwen2.5-0.5b", "--socket")
    assert keys.read_text() == "ann:sk-one\n"
    assert "port = 9000 # mine" in config.read_text()
    assert machine.config()["model"]["path"] == "qwen2.5-0.5b"
    assert machine.config()["memory"]["path"] == ""
    assert "systemctl enable reame.socket reame.service" in machine.calls()
    machine.run()
    assert machine.calls()[0] == "reame pull qwen2.5-0.5b", "the configuration's model, from then on"


def test_a_model_of_one_s_own_is_put_where_the_service_sees_it(machine: Machine, tmp_path: Path) -> None:
    own = tmp_path / "my model.gguf"
    own.write_text("weights")
    own.chmod(0o600)
    machine.run("--model", str(own))
    place = machine.root / "var/lib/reame/models/my model.gguf"
    assert (place.read_text(), stat.S_IMODE(place.stat().st_mode)) == ("weights", 0o644)
    assert machine.config()["model"]["path"] == "my model.gguf"
    machine.calls()
    machine.run()
    assert machine.calls()[0] == "systemctl daemon-reload", "there is nothing to fetch"


def test_uninstall(machine: Machine) -> None:
    machine.run()
    machine.calls()
    said = machine.run("--uninstall")
    assert machine.files() == CONFIG_FILES | {"var/lib/reame/models/smollm2-135m.gguf"}
    assert not (machine.root / "opt/reame").exists()
    assert "kept: " in said
    assert machine.calls() == [
        "systemctl disable --now reame.socket", "systemctl disable --now reame.service", "systemctl daemon-reload",
    ]  # fmt: skip
    machine.run("--uninstall", "--purge")
    assert machine.files() == set()


@pytest.mark.parametrize("arguments", [("--dry-run",), ("--dry-run", "--uninstall", "--purge")])
def test_a_dry_run_says_all_and_does_nothing(machine: Machine, arguments: tuple[str, ...]) -> None:
    if "--uninstall" in arguments:
        machine.run()
    before = machine.files(), machine.calls()
    said = machine.run(*arguments)
    assert (machine.files(), machine.calls()) == (before[0], [])
    assert "systemctl" in said
    assert said.splitlines()[-1] == "install-service: nothing was done: this was a dry run"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--frobnicate",), "--frobnicate"),
        (("--purge",), "--uninstall"),
        (("--uninstall", "--socket"), "--socket"),
        (("--model",), "--model"),
        (("--model", 'a"b.gguf'), "--model"),
    ],
)
def test_misuse(machine: Machine, arguments: tuple[str, ...], named: str) -> None:
    said = machine.run(*arguments, code=2)
    assert said.startswith("install-service: error: ")
    assert named in said
    assert machine.files() == set()


def test_a_model_that_is_not_there(machine: Machine) -> None:
    assert "/nowhere/m.gguf is not there" in machine.run("--model", "/nowhere/m.gguf", code=1)
