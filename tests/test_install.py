"""scripts/install-service: what it puts where, and what it says when it cannot."""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

import pytest
from scripts_checkout import ROOT

from reame.config_load import load_config

if TYPE_CHECKING:
    from pathlib import Path


SETUP = f"""#!/bin/sh
program=$(dirname "$(dirname "$0")")
mkdir -p "$program/.venv/bin"
cat >"$program/.venv/bin/python" <<'END'
#!/bin/sh
exec "{sys.executable}" "$@"
END
cat >"$program/.venv/bin/reame" <<'END'
#!/bin/sh
[ "$1" != config ] || exec "{sys.executable}" -m reame "$@"
echo "reame $*" >>"$CALLS"
touch "$REAME_MODELS/$2.gguf"
END
chmod 755 "$program/.venv/bin/reame" "$program/.venv/bin/python"
"""


class Machine:
    """A checkout to install, and a folder that stands for `/`. The script is real, and so are all that it does to files
    and `reame config`; set-up makes no .venv of its own, and `reame pull` and systemctl only say that they were called.
    """

    def __init__(self, folder: Path) -> None:
        self.root, self.checkout, self._calls = folder / "machine", folder / "a checkout", folder / "calls"
        for part in ("etc", "systemd"):
            shutil.copytree(ROOT / part, self.checkout / part)
        for part in ("reame/__init__.py", "scripts/setup", "pyproject.toml", "README.md", "LICENSE"):
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

    def run(self, *arguments: str, code: int = 0, umask: int = 0o022, room: int = 1 << 30, home: bool = True) -> str:
        """No file can get larger than `room` bytes, which is what a full disk looks like."""
        environ = {"PATH": f"{self.root}/bin:{os.environ['PATH']}", "CALLS": str(self._calls)}
        done = subprocess.run(
            [self.script, *arguments],
            env=environ | ({"HOME": str(self.root)} if home else {"REAME_CACHE": str(self.root / "cache")}),
            capture_output=True,
            text=True,
            check=False,
            cwd="/",
            umask=umask,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
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

    def write_config(self, text: str) -> Path:
        file = self.root / "etc/reame/reame.toml"
        file.parent.mkdir()
        file.write_text(text)
        return file

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


def test_a_model_that_is_served_is_replaced_as_a_whole_or_not_at_all(machine: Machine, tmp_path: Path) -> None:
    own, place = tmp_path / "my.gguf", machine.root / "var/lib/reame/models/my.gguf"
    own.write_text("old")
    machine.run("--model", str(own))
    own.write_text("new" * 100_000)
    with place.open() as served:
        assert "cannot be copied" in machine.run("--model", str(own), code=1, room=100_000)
        assert [file.read_text() for file in place.parent.iterdir()] == ["old"]
        machine.run("--model", str(own))
        assert served.read() == "old", "what a daemon has mapped stays as it is"
    assert place.read_text() == own.read_text()


@pytest.mark.parametrize("trouble", ["a full disk", "a set-up that refuses"])
def test_an_update_that_fails_leaves_the_old_program(machine: Machine, trouble: str) -> None:
    machine.run()
    program, code = machine.root / "opt/reame", machine.checkout / "reame/__init__.py"
    before = {path: path.read_bytes() for path in program.rglob("*") if path.is_file()}
    code.write_text("# new")
    if trouble == "a full disk":
        (machine.checkout / "LICENSE").write_text("new" * 100_000)
        said = machine.run(code=1, room=100_000)
    else:
        (machine.checkout / "scripts/setup").write_text("#!/bin/sh\nexit 1\n")
        said = machine.run(code=1)
    assert ("is there as it was" if trouble == "a full disk" else "is back") in said
    assert {path: path.read_bytes() for path in program.rglob("*") if path.is_file()} == before


def test_what_an_update_that_was_broken_off_left_is_put_back_first(machine: Machine) -> None:
    """The next one fails too: it must not take what was never set up for the program that works."""
    machine.run()
    program = machine.root / "opt/reame"
    (program / "reame").rename(program / "reame.old")
    (program / "reame").mkdir()
    (program / "reame/__init__.py").write_text("# never set up")
    (machine.checkout / "scripts/setup").write_text("#!/bin/sh\nexit 1\n")
    machine.run(code=1)
    assert "never" not in (program / "reame/__init__.py").read_text()


def test_an_update_leaves_nothing_of_the_old_program(machine: Machine) -> None:
    machine.run()
    (machine.checkout / "reame/__init__.py").rename(machine.checkout / "reame/other.py")
    machine.run()
    program = machine.root / "opt/reame"
    assert [path.name for path in (program / "reame").iterdir()] == ["other.py"]
    assert not [path.name for path in program.iterdir() if path.suffix in (".new", ".old")]


def test_a_checkout_that_is_linked_to_where_the_program_goes_stays(machine: Machine) -> None:
    (machine.root / "opt/reame").symlink_to(machine.checkout)
    before = {path for path in machine.checkout.rglob("*") if ".venv" not in path.parts}
    machine.run()
    assert {path for path in machine.checkout.rglob("*") if ".venv" not in path.parts} == before
    assert "systemctl restart reame.service" in machine.calls()


def test_it_works_without_a_home(machine: Machine) -> None:
    """As cloud-init runs it."""
    machine.run(home=False)


def test_all_parts_of_a_split_model_come_along(machine: Machine, tmp_path: Path) -> None:
    names = [f"big-{number:05}-of-00010.gguf" for number in range(1, 11)]
    for name in names:
        (tmp_path / name).write_text(name)
    machine.run("--model", str(tmp_path / names[0]))
    assert machine.config()["model"]["path"] == names[0]
    models = machine.root / "var/lib/reame/models"
    assert {file.name: file.read_text() for file in models.iterdir()} == {name: name for name in names}


def test_a_split_model_that_is_not_whole_changes_nothing(machine: Machine, tmp_path: Path) -> None:
    first, second, third = (tmp_path / f"big-0000{number}-of-00003.gguf" for number in (1, 2, 3))
    first.touch()
    second.touch()
    assert f"{third} is not there" in machine.run("--model", str(first), code=1)
    assert f"give the first, {first}" in machine.run("--model", str(second), code=1)
    assert (machine.files(), machine.calls()) == (set(), [])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[model]\n# path = 'an older one'\n\n[memory]\npath = '/a/disk'\n",
        "[model]\npath = 'old' # mine\n",
        "model.path = 'old'\n",
    ],
)
def test_the_model_is_set_whatever_the_configuration_looks_like(machine: Machine, text: str) -> None:
    config = machine.write_config(text)
    config.chmod(0o640)
    machine.run("--model", "qwen3-4b")
    before, now = tomllib.loads(text), machine.config()
    assert now == {**before, "model": {**before.get("model", {}), "path": "qwen3-4b"}}
    assert ("# mine" in config.read_text(), stat.S_IMODE(config.stat().st_mode)) == ("# mine" in text, 0o640)


def test_the_configured_model_is_what_the_program_reads(machine: Machine) -> None:
    config = machine.write_config(text := "[model]\npath = 'tiny' # mine\n[memory]\npath = '/a/disk'\n")
    machine.run()
    assert machine.calls()[0] == "reame pull tiny"
    assert config.read_text() == text


def test_a_configuration_with_a_mistake_stops_nothing(machine: Machine) -> None:
    machine.write_config("[model]\npath = 5\n")
    assert "model.path: expected" in machine.run("--model", "qwen3-4b", code=1)
    assert machine.calls() == []


def test_what_is_installed_is_readable_whatever_umask_root_has(machine: Machine) -> None:
    machine.run(umask=0o077)
    paths = [*(machine.root / "opt/reame").rglob("*"), *(machine.root / "etc/reame").rglob("*")]
    places = [machine.root / place for place in ("opt/reame", "etc/reame", "var/lib/reame/models")]
    closed = [path.name for path in (*paths, *places) if not path.stat().st_mode & stat.S_IROTH]
    assert closed == ["api-keys"]


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
