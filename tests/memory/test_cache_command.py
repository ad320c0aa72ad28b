"""`reame cache` through the command line's parser, on a directory that stores have filled."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from chains import block_files, chain, new_store
from cyclopts import App

from reame import config_load
from reame.commands.cache import register
from reame.core.events import Delta, Usage
from reame.errors import ConfigError, ReameError
from reame.memory.answer_format import Answer
from reame.memory.answers import AnswerStore
from reame.memory.archive import Archive
from reame.memory.inbox import Inbox, wait_done

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = Answer(
    deltas=(Delta(text="yes"),), reason="stop", usage=Usage(prompt_tokens=1, cached_tokens=0, completion_tokens=1)
)


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a daemon that has served alice, bob and somebody without a key."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_load, "SYSTEM_FILE", tmp_path / "system.toml")
    monkeypatch.delenv("REAME_CONFIG", raising=False)
    keys = tmp_path / "keys"
    keys.write_text("alice:sk-0123456789abcdef\n")
    keys.chmod(0o600)
    directory = tmp_path / "memory"
    store = new_store(directory / "blocks")
    for namespace, length in (("alice", 3), ("bob", 2), ("", 1)):
        chain(length, namespace=namespace).store(store)
    answers = AnswerStore(directory / "answers.sqlite", budget_bytes=1 << 20)
    for number, namespace in enumerate(("alice", "alice", "bob")):
        answers.put(bytes([number]) * 32, ANSWER, namespace=namespace)
    answers.close()
    archive = Archive(directory / "archive", fingerprint=bytes(32), vocab_size=9, budget_bytes=1 << 24)
    archive.append([1, 2, 3, 4, 5, 6, 7, 8], namespace="bob")
    archive.close()
    (tmp_path / "reame.toml").write_text(f'[memory]\npath = "{directory}"\n[server]\napi_keys_file = "{keys}"\n')
    return directory


def reame(*words: str) -> int:
    app = App(name="reame")
    register(app)
    command = [words[0], "--config", "reame.toml", *words[1:]]
    code = app(["cache", *command], result_action="return_value", exit_on_error=False)
    assert isinstance(code, int)
    return code


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert reame(*words, "--json") in (0, 1)
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("memory")
def test_stats_show_whose_blocks_are_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("stats") == 0
    out = capsys.readouterr().out.splitlines()
    rows = {line.split()[1]: line.split()[2:4] for line in out[2:5]}
    assert rows["alice"] == ["3", "12"]
    assert rows["-"] == ["1", "4"]
    (unknown,) = [name for name in rows if name.startswith("#")]  # bob's key is no longer in the file
    assert rows[unknown] == ["2", "8"]
    assert out[5].startswith("blocks of prefixes: 6, ")
    assert out[6].startswith("old answers: 3, ")
    assert out[7].startswith("archive: 1 texts, 8 tokens, ")
    assert out[7].endswith(" of 268 MB")
    told = as_json(capsys, "stats")
    assert {group["key"]: group["blocks"] for group in told["blocks"]["groups"]} == {"alice": 3, "": 1, None: 2}
    assert told["blocks"]["budget"] == 4096 << 20
    assert told["answers"]["answers"] == 3
    assert told["archive"] == {"bytes": told["archive"]["bytes"], "budget": 256 << 20, "texts": 1, "tokens": 8}


def test_ls_shows_as_many_as_one_wants(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("ls", "--most", "2") == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 4
    assert out[-1] == "and 4 more (--most 0 shows all)"
    assert reame("ls", "--most", "0") == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert {entry["key"] for entry in as_json(capsys, "ls")} == {
        file.name.removesuffix(".kv") for file in block_files(memory / "blocks")
    }


def test_verify_says_what_was_damaged_and_then_all_is_well(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = block_files(memory / "blocks")[3]
    file.write_bytes(file.read_bytes()[:-1])
    assert reame("verify") == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"deleted {file.relative_to(memory / 'blocks')}: ")
    assert out[1].startswith("blocks of prefixes: 5 sound (")
    assert out[1].endswith("), 1 damaged")
    assert out[2] == "old answers: 3 sound, 0 damaged"
    assert as_json(capsys, "verify") == {
        "blocks": {"sound": 5, "damaged": []},
        "answers": {"sound": 3, "damaged": 0},
    }
    assert reame("verify") == 0


def test_forget_deletes_one_keys_things_only(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("forget", "--key", "bob") == 0
    assert capsys.readouterr().out == "deleted 2 blocks (8.19 kB), 1 old answers and 1 archived texts\n"
    assert len(block_files(memory / "blocks")) == 4
    assert as_json(capsys, "forget", "--key", "bob") == {
        "deleted": {"blocks": 0, "bytes": 0, "answers": 0, "texts": 0},
        "daemons": 0,
    }
    assert as_json(capsys, "forget", "--key", "")["deleted"]["blocks"] == 1


@pytest.mark.usefixtures("memory")
def test_forget_says_when_it_knows_nobody_of_that_name(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip in the name, or the key in its place, which is not shown."""
    assert reame("forget", "--key", "sk-alise") == 0
    told = capsys.readouterr()
    assert told.out.startswith("deleted 0 blocks")
    assert "the keys here are called alice: --key wants a name" in told.err
    assert "alise" not in told.err
    assert reame("forget", "--key", "alice") == reame("forget", "--key", "alice") == 0
    assert capsys.readouterr().err == ""


def test_forget_tells_running_daemons_and_deletes_what_they_still_wrote(
    memory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Inbox(memory)

    def daemon(files: list[Path], *, patience_s: float) -> list[Path]:
        chain(2, seed=9, namespace="alice").store(new_store(memory / "blocks"))
        (told,) = inbox.orders()
        assert told.namespace == "alice"
        inbox.done(told)
        return wait_done(files, patience_s=0)

    monkeypatch.setattr("reame.memory.inbox.wait_done", daemon)
    assert reame("forget", "--key", "alice") == 0
    inbox.close()
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "deleted 5 blocks (20.5 kB), 2 old answers and 0 archived texts"
    assert out[1] == "1 running daemon forgot it too, live cells included"
    assert len(block_files(memory / "blocks")) == 3


def test_forget_says_which_daemon_does_not_answer(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reame.commands.cache_forget.PATIENCE_S", 0.0)
    inbox = Inbox(memory)
    with pytest.raises(ReameError, match=rf"does not answer \(process {os.getpid()}\): what it has in RAM ends"):
        reame("forget", "--key", "bob")
    inbox.close()
    assert len(block_files(memory / "blocks")) == 4


def test_without_the_keys_file_which_a_service_at_rest_has_not(
    memory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys").unlink()
    assert as_json(capsys, "forget", "--key", "alice")["deleted"]["blocks"] == 3
    assert len(block_files(memory / "blocks")) == 3


@pytest.mark.usefixtures("memory")
def test_forget_where_all_is_shared_says_what_to_do() -> None:
    with pytest.raises(ConfigError, match="reame cache clear deletes everything"):
        reame("forget", "--key", "bob", "--set", "memory.share=all")


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("key", ["\udcff", "sk/secret", "a" * 65])
def test_forget_what_no_key_can_be_called_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(ConfigError, match="wants the name of a key") as caught:
        reame("forget", "--key", key)
    assert key not in str(caught.value)


def test_prune_brings_it_within_a_smaller_budget(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = new_store(memory / "blocks")
    chain(3, seed=7, payload=500_000).store(store)
    assert as_json(capsys, "prune")["deleted"]["blocks"] == 0
    assert as_json(capsys, "prune", "--set", "memory.disk_mb=1")["deleted"]["blocks"] > 1
    assert sum(file.stat().st_size for file in block_files(memory / "blocks")) < 1 << 20


def test_clear_deletes_all(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("clear") == 0
    assert capsys.readouterr().out == "deleted 6 blocks (24.6 kB), 3 old answers and 1 archived texts\n"
    assert block_files(memory / "blocks") == list((memory / "archive").rglob("*.seg*")) == []
    told = as_json(capsys, "stats")
    assert (told["answers"]["answers"], told["archive"]["texts"], told["archive"]["bytes"]) == (0, 0, 0)
    assert as_json(capsys, "clear") == {"deleted": {"blocks": 0, "bytes": 0, "answers": 0, "texts": 0}}


@pytest.mark.usefixtures("memory")
def test_where_nothing_is_kept_nothing_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("stats",), ("ls",), ("verify",), ("prune",), ("clear",), ("forget", "--key", "x")):
        assert reame(*words, "--set", f"memory.path={tmp_path}/none") == 0
    assert "no blocks" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("memory")
@pytest.mark.parametrize("command", ["verify", "prune", "clear", "forget --key x"])
def test_what_is_no_directory_is_said_in_one_line(tmp_path: Path, command: str) -> None:
    with pytest.raises(ReameError, match=r"keys/blocks: Not a directory$"):
        reame(*command.split(), "--set", f"memory.path={tmp_path}/keys")
