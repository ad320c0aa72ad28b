"""The command line as a whole: help everywhere, mistakes as one line, exit statuses, and a fast start."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from reame import __version__, cli
from reame.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cyclopts import App

HEAVY = {"quart", "hypercorn", "llama_cpp", "numpy", "openai", "jinja2"}
COMMANDS = {
    *("run", "serve", "pull", "list", "rm"),
    *("config", "config show", "config check", "config init"),
    *("cache", "cache stats", "cache ls", "cache verify", "cache prune", "cache clear", "cache forget"),
}


def reame(*words: str, **popen: Any) -> subprocess.CompletedProcess[str]:
    keywords = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL} | popen
    return subprocess.run([sys.executable, "-m", "reame", *words], text=True, check=False, timeout=120, **keywords)


def commands(app: App, *above: str) -> Iterator[tuple[str, App]]:
    """Words and app of every command, groups included."""
    for name, command in app.resolved_commands().items():
        if not name.startswith("-"):
            words = (*above, name)
            yield " ".join(words), command
            yield from commands(command, *words)


ALL = dict(commands(cli.app))


def test_every_command_is_there() -> None:
    assert set(ALL) >= COMMANDS


@pytest.mark.parametrize("words", sorted(ALL))
def test_every_command_and_every_parameter_says_what_it_is(words: str) -> None:
    command = ALL[words]
    assert command.help or command.default_command.__doc__
    if command.default_command is not None:
        for argument in command.assemble_argument_collection(parse_docstring=True):
            assert len(argument.parameter.help or "") > 5, f"{words}: {argument.name} is not explained"


@pytest.mark.parametrize("words", ["", *sorted(COMMANDS)])
def test_help_names_the_command(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.status_of([*words.split(), "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Usage: reame {words}".rstrip())
    assert err == ""


@pytest.mark.parametrize("words", ["", "config"])
def test_without_a_command_there_is_help(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.status_of(words.split()) == 0
    out, err = capsys.readouterr()
    assert out.startswith("Usage: reame")
    assert ("show" if words else "serve") in out
    assert err == ""


@pytest.mark.parametrize(
    ("words", "said", "see"),
    [
        (["srve"], 'unknown command "srve". Did you mean "serve"?', "reame"),
        (["config", "shwo"], 'unknown command "shwo". Did you mean "show"?', "reame config"),
        (["run"], "MODEL is missing", "reame run"),
        (["pull"], "NAME is missing", "reame pull"),
        (["run", "m", "--seed"], "--seed needs a value", "reame run"),
        (["run", "m", "--seed", "x"], 'invalid value for --seed: unable to convert "x" into int', "reame run"),
        (["run", "m", "--sede", "1"], "unknown option: --sede. Did you mean --seed?", "reame run"),
        (["run", "m", "-q"], "unknown option: -q", "reame run"),
        (["serve", "--config"], "--config needs a value", "reame serve"),
        (["serve", "right", "now"], "too many arguments: right now", "reame serve"),
    ],
)
def test_a_wrong_command_line_is_one_line_and_a_hint(
    words: list[str], said: str, see: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.status_of(words) == 2
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert first.startswith(f"reame: {said}")
    assert second == f"see {see} --help"
    assert out == ""


@pytest.mark.parametrize("words", ["--version", "--help", "run --help"])
def test_the_start_is_light(words: str) -> None:
    code = (
        "import sys\nfrom reame.cli import status_of\nstatus_of(sys.argv[1:])\n"
        f"print('LOADED', *sorted({HEAVY} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.splitlines()[-1].split() == ["LOADED"]
    assert words != "--version" or done.stdout.splitlines()[0] == f"reame {__version__}"


def test_python_dash_m_and_exit_statuses_of_a_process(tmp_path: Path) -> None:
    version = reame("--version")
    assert (version.returncode, version.stdout, version.stderr) == (0, f"reame {__version__}\n", "")
    wrong = reame("serve", "--config", str(tmp_path / "none.toml"))
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert wrong.stderr.startswith(f"reame: {tmp_path}/none.toml: cannot be read")
    assert wrong.stderr.count("\n") == 1
    assert reame("nonsense").returncode == 2


def test_a_reader_that_leaves_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody_reads:
        done = reame("config", "show", stdout=nobody_reads)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_a_failure() -> None:
    with open("/dev/full", "w") as full:
        done = reame("config", "show", stdout=full)
    assert done.returncode == 1
    assert done.stderr == f"reame: the output cannot be written: {os.strerror(errno.ENOSPC)}\n"


def test_a_character_that_the_locale_lacks_is_no_failure() -> None:
    environ = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = reame("config", "show", "--set", "model.id=a\N{EM DASH}b", env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'id = "a?b"  # --set\n' in done.stdout


@pytest.mark.parametrize("words", ["list", "cache stats"])
@pytest.mark.parametrize(
    ("closed", "is_told"), [("<&-", True), (">&-", False), ("2>&-", True), ("<&- >&- 2>&-", False)]
)
def test_a_standard_stream_that_is_closed_is_no_failure(words: str, closed: str, is_told: bool, tmp_path: Path) -> None:
    """What would go there goes nowhere; what goes elsewhere is as ever."""
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "reame", *words.split()]
    environ = os.environ | {"REAME_MODELS": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environ)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) is is_told


def test_no_file_gets_the_number_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    """Or a library's complaint would be written into it."""
    code = (
        "import os, subprocess, sys\nfrom reame.cli import open_missing_streams\nopen_missing_streams()\n"
        "file = open(sys.argv[1], 'w')\nprint('hello')\nos.write(1, b'hello')\n"
        "subprocess.run(['echo', 'hello'], check=True)\nfile.write(str(file.fileno()))"
    )
    told = tmp_path / "told"
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", code, str(told)]
    subprocess.run(command, check=True, timeout=120)
    assert int(told.read_text()) > 2


def group(*errors: BaseException) -> BaseExceptionGroup[BaseException]:
    return BaseExceptionGroup("inner", [BaseExceptionGroup("outer", list(errors))])


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ModelError("no model"), 1, "reame: no model\n"),
        (group(ModelError("no model"), ConfigError("no config")), 1, "reame: no model\nreame: no config\n"),
        (KeyboardInterrupt(), 130, ""),
        (group(KeyboardInterrupt(), ModelError("no model")), 130, ""),
    ],
)
def test_errors_for_people_in_groups_too(
    error: BaseException, status: int, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "app", failing(error))
    assert cli.status_of([]) == status
    assert capsys.readouterr() == ("", said)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), group(ModelError("no model"), KeyError("x")), PermissionError(errno.EACCES, "no")]
)
def test_a_bug_keeps_its_traceback(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "app", failing(error))
    with pytest.raises(type(error)) as raised:
        cli.status_of([])
    assert raised.value is error


def failing(error: BaseException) -> Any:
    def app(words: list[str], **_: object) -> None:
        raise error

    return app
