"""`reame pull`, `list` and `rm`, and how a pull looks on a terminal and in a log."""

from __future__ import annotations

import io
import json
import sys
from typing import TYPE_CHECKING

import cyclopts
import pytest
from hub_server import HubServer, gguf

from reame.catalog import CATALOG, entry
from reame.commands import models
from reame.commands.progress import Bar, Lines, shown_on
from reame.errors import ModelError, ReameError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KNOWN = CATALOG[3]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = tmp_path / "models"
    directory.mkdir()
    monkeypatch.setenv("REAME_MODELS", str(directory))
    return directory


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    files = {str(known.source).removeprefix("hf:"): gguf(1000) for known in CATALOG}
    for running in HubServer(files=files).running():
        monkeypatch.setenv("HF_ENDPOINT", running.url)
        monkeypatch.setenv("NO_PROXY", "*")
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield running


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if not path.name.endswith(".lock"))


async def test_pull_then_list_then_rm(hub: HubServer, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await models.pull(KNOWN.name) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == [
        f"{store / KNOWN.name}.gguf is here (1 kB)",
        f"try it: reame run {KNOWN.name}",
    ]
    assert err.splitlines()[-1].startswith(f"{KNOWN.name}.gguf: 100% of 1 kB")
    assert await models.pull(KNOWN.name) == 0
    assert "was here already" in capsys.readouterr().out
    assert await models.list_models(as_json=True) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[KNOWN.name]["installed"]
    assert rows[KNOWN.name]["size"] == 1000
    assert rows[KNOWN.name]["path"] == str(store / f"{KNOWN.name}.gguf")
    assert await models.rm(KNOWN.name, yes=True) == 0
    assert capsys.readouterr().out == f"deleted {KNOWN.name}: 1 kB freed\n"
    assert names(store) == []


async def test_pull_names_a_licence_that_asks_something(
    hub: HubServer, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    await models.pull("llama-3.2-1b")
    assert "its licence: Llama 3.2" in capsys.readouterr().out


async def test_list_shows_every_model_and_its_facts(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "[red]mine.gguf").write_bytes(gguf(2_500_000))
    (store / "gone.gguf").symlink_to(store / "nowhere")
    assert await models.list_models() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Installed in {store}:"
    assert lines[2].split() == ["[red]mine", "2.5", "MB"]
    assert lines[3].split()[0] == "gone"
    for known in CATALOG:
        (line,) = [line for line in lines if line.startswith(f"{known.name} ")]
        assert line.endswith(known.advice)
        assert ("~" in line) is (not known.size_is_exact)
        assert f" {known.context // 1024}k " in line


async def test_list_as_json_has_the_same_keys_for_all(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "mine.gguf").write_bytes(gguf(100))
    await models.list_models(as_json=True)
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["mine", *(known.name for known in CATALOG)]
    assert {frozenset(row) for row in rows} == {frozenset(rows[0])}
    assert rows[0]["licence"] is None
    assert rows[1] | {"path": None} == rows[1]
    assert (rows[1]["source"], rows[1]["ram"]) == (str(CATALOG[0].source), CATALOG[0].ram)


async def test_list_without_a_models_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("REAME_MODELS", str(tmp_path / "none"))
    assert await models.list_models() == 0
    assert capsys.readouterr().out.startswith(f"No model is installed in {tmp_path / 'none'}: reame pull smollm2-135m")


def test_a_narrow_terminal_keeps_the_columns_and_moves_the_advice() -> None:
    known = entry("qwen2.5-7b")
    lines = models._table([models.Row("qwen2.5-7b", None, known)], 60)
    assert known is not None
    assert max(map(len, lines)) <= 60
    assert " ".join(line.strip() for line in lines[2:]).strip() == known.advice
    assert lines[2].startswith("    ")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "kept"), [("y\n", False), ("YES\n", False), ("\n", True), ("n\n", True), ("", True)]
)
async def test_rm_asks_first(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, answer: str, kept: bool
) -> None:
    model = store / "mine.gguf"
    model.write_bytes(gguf(100))
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    assert await models.rm("mine") == (1 if kept else 0)
    assert f"delete {model} (100 bytes)? [y/N]" in capsys.readouterr().err
    assert names(store) == (["mine.gguf"] if kept else [])


async def test_rm_does_not_delete_unasked(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (store / "mine.gguf").write_bytes(gguf(100))
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    with pytest.raises(ModelError, match="say --yes"):
        await models.rm("mine")
    assert (store / "mine.gguf").read_bytes() == gguf(100)


async def test_rm_takes_all_parts_and_what_a_pull_left(store: Path) -> None:
    left = ["a.gguf.part", "a.gguf.part.json", "Big-00001-of-00002.gguf", "Big-00002-of-00002.gguf.part"]
    for name in [*left, "Bigger.gguf", "a.gguf.txt"]:
        (store / name).write_bytes(b"GGUF")
    assert await models.rm("a", yes=True) == 0
    assert await models.rm("Big", yes=True) == 0
    assert names(store) == ["Bigger.gguf", "a.gguf.txt"]


async def test_rm_says_what_keeps_it_from_deleting(store: Path) -> None:
    (store / "mine.gguf").write_bytes(gguf(100))
    (store / ".mine.gguf.lock").mkdir()
    with pytest.raises(ModelError, match=r"^mine cannot be deleted from .*: is a directory$"):
        await models.rm("mine", yes=True)
    assert (store / "mine.gguf").exists()


async def test_rm_never_leaves_the_models_directory(store: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.gguf"
    for file in (outside, tmp_path / "mine.gguf", store / "mine.gguf"):
        file.write_bytes(gguf(100))
    (store / "link.gguf").symlink_to(outside)
    (store / "sub").mkdir()
    (store / "sub" / "deep.gguf").write_bytes(gguf(100))
    for name in (
        str(outside),
        "../outside",
        "../outside.gguf",
        f"{store}/../outside.gguf",
        "sub/deep",
        "..",
        ".",
        "/",
        "",
        "../mine",
        str(tmp_path / "mine.gguf"),
    ):
        with pytest.raises(ModelError):
            await models.rm(name, yes=True)
    assert await models.rm(str(store / "link.gguf"), yes=True) == 0
    assert outside.read_bytes() == gguf(100)
    assert names(store) == ["mine.gguf", "sub"]


async def test_rm_of_what_is_not_there_names_what_is(store: Path) -> None:
    (store / "mine.gguf").write_bytes(gguf(100))
    with pytest.raises(ModelError, match=r"no model called 'qwen2.5-7b' is installed .*\(there: mine\)"):
        await models.rm("qwen2.5-7b", yes=True)
    with pytest.raises(ModelError, match="no model called"):  # a beginning is enough to run a model, not to delete it
        await models.rm("min", yes=True)


def test_the_commands_read_their_flags_and_explain_themselves(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = cyclopts.App(name="reame", backend="trio", result_action="return_value")
    models.register(app)
    (store / "mine.gguf").write_bytes(gguf(100))
    assert app(["list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "mine"
    assert app(["rm", "mine", "-y"]) == 0
    capsys.readouterr()
    for command, words in {"pull": "HF_TOKEN", "list": "engine.cells", "rm": "--yes"}.items():
        app([command, "--help"])
        assert words in capsys.readouterr().out


def test_lines_come_every_tenth() -> None:
    log = io.StringIO()
    with shown_on(log) as progress:
        assert isinstance(progress, Lines)
        progress.begin("m.gguf", total=100_000, done=0)
        for _ in range(1000):
            progress.advance(100)
        progress.say("done")
    lines = log.getvalue().splitlines()
    assert lines[0] == "m.gguf: 100 kB"
    assert [line.split(" ")[1] for line in lines[1:-1]] == [f"{share}%" for share in range(10, 101, 10)]
    assert "/s" in lines[1]
    assert lines[1].endswith(" s left")
    assert lines[-1] == "done"


def test_lines_of_a_resumed_pull_and_of_one_without_size() -> None:
    log = io.StringIO()
    progress = Lines(log)
    progress.begin("m.gguf", total=1000, done=555)
    progress.advance(44)
    progress.advance(1)
    assert [line.split(",")[0] for line in log.getvalue().splitlines()] == ["m.gguf: 1 kB", "m.gguf: 60% of 1 kB"]
    progress.begin("n.gguf", total=None, done=0)
    progress.advance(99_999_999)
    progress.advance(1)
    assert log.getvalue().splitlines()[2] == "n.gguf: size unknown"
    assert log.getvalue().splitlines()[3].startswith("n.gguf: 100 MB, ")


def test_a_terminal_gets_one_bar_for_each_file() -> None:
    screen = Terminal()
    with shown_on(screen) as progress:
        assert isinstance(progress, Bar)
        progress.begin("a.gguf", total=100, done=0)
        progress.advance(50)
        progress.begin("a.gguf", total=100, done=40)  # a retry
        progress.advance(60)
        progress.begin("b.gguf", total=None, done=0)
        progress.say("[bold]b.gguf[/] waits")
    assert "a.gguf" in screen.getvalue()
    assert "[bold]b.gguf[/] waits" in screen.getvalue()
    assert [(task.description, task.completed) for task in progress.display.tasks] == [("a.gguf", 100), ("b.gguf", 0)]


async def test_a_model_whose_second_part_is_missing_is_not_here(
    hub: HubServer, store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (1, 2):
        (store / f"m-0000{number}-of-00002.gguf").write_bytes(gguf(100))
    (store / "m-00002-of-00002.gguf").unlink()
    with pytest.raises(ReameError):  # it goes and looks for it; the hub does not have it
        await models.pull("hf:some/where/m-00001-of-00002.gguf")
    assert "was here already" not in capsys.readouterr().out
