"""`reame config show | check | init` through the command line's parser."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from attrs import asdict
from cyclopts import App

from reame import config_load
from reame.commands.config import register
from reame.config import Config
from reame.config_load import load_config, parse_config
from reame.config_text import default_text
from reame.errors import ConfigError


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_load, "SYSTEM_FILE", tmp_path / "system.toml")
    monkeypatch.delenv("REAME_CONFIG", raising=False)


def reame(*words: str) -> int:
    app = App(name="reame")
    register(app)
    code = app(["config", *words], result_action="return_value", exit_on_error=False)
    assert isinstance(code, int)
    return code


def test_init_writes_a_file_that_is_found_and_never_replaces_one_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("init") == 0
    assert capsys.readouterr().out == "wrote etc/reame.toml\n"
    assert load_config().source == "etc/reame.toml"
    path = Path("etc/reame.toml")
    path.write_text("[server]\nport = 1\n")
    with pytest.raises(ConfigError, match=r"^etc/reame\.toml: exists already; --force replaces it$"):
        reame("init")
    assert path.read_text() == "[server]\nport = 1\n"
    assert reame("init", "--force") == 0
    assert path.read_text() == default_text()
    assert os.listdir("etc") == ["reame.toml"]


def test_init_where_nothing_can_be_written() -> None:
    Path("file").write_text("")
    with pytest.raises(ConfigError, match=r"^file/reame\.toml: cannot be written: "):
        reame("init", "file/reame.toml")
    Path("directory").mkdir()
    with pytest.raises(ConfigError, match=r"^directory: exists already"):
        reame("init", "directory")
    with pytest.raises(ConfigError, match=r"^directory: cannot be written: is a directory$"):
        reame("init", "directory", "--force")
    assert sorted(os.listdir()) == ["directory", "file"]


def test_init_on_a_file_system_without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    """exFAT, and folders that a virtual machine shares."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    assert reame("init") == 0
    assert Path("etc/reame.toml").read_text() == default_text()
    with pytest.raises(ConfigError, match="exists already"):
        reame("init")
    assert os.listdir("etc") == ["reame.toml"]


def test_init_force_through_a_link_keeps_the_link() -> None:
    Path("real.toml").write_text("old")
    os.symlink("real.toml", "link.toml")
    assert reame("init", "link.toml", "--force") == 0
    assert Path("link.toml").is_symlink()
    assert Path("real.toml").read_text() == default_text()


def test_check_says_ok_or_every_mistake_and_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("check") == 0
    assert capsys.readouterr().out == "ok: built-in defaults\n"
    Path("c.toml").write_text("[server]\nport = -1\n[log]\nlevel = 1\n")
    for words in (["c.toml"], ["--config", "c.toml"], ["-c", "c.toml"]):
        assert reame("check", *words) == 1
        out, err = capsys.readouterr()
        assert out == ""
        assert err.splitlines() == [
            "reame: c.toml: 2 mistakes",
            "  server.port: expected an integer from 0 to 65535, got -1",
            '  log.level: expected one of "debug", "info", "warning", "error", got 1',
        ]
    assert reame("check", "c.toml", "--set", "server.port=1", "--set", "log.level=info") == 0
    assert capsys.readouterr().out == "ok: c.toml\n"
    assert reame("check", "gone.toml") == 1
    assert capsys.readouterr().err.startswith("reame: gone.toml: cannot be read: ")


def test_check_reads_the_keys_that_the_config_names(capsys: pytest.CaptureFixture[str]) -> None:
    Path("keys").write_text("alice:s3cret\nalice:s3cret2\n")
    assert reame("check", "--set", "server.api_keys_file=keys") == 1
    assert "line 2: the same name as in line 1" in capsys.readouterr().err


def test_check_reads_the_chat_template_that_the_config_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("check", "--set", "model.chat_template=gone.jinja") == 1
    assert capsys.readouterr().err == "reame: model.chat_template: gone.jinja: No such file or directory\n"
    Path("mine.jinja").write_bytes(b"a\xff")
    assert reame("check", "--set", "model.chat_template=mine.jinja") == 1
    assert "not UTF-8 (byte 1)" in capsys.readouterr().err
    Path("mine.jinja").write_text("{{ messages }}")
    assert reame("check", "--set", "model.chat_template=mine.jinja") == 0


def test_check_knows_that_a_services_copy_of_the_keys_comes_later(capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("check", "--set", "server.api_keys_file=/run/reame-test/keys") == 0
    assert capsys.readouterr().out.endswith("; /run/reame-test/keys is made when the service starts\n")
    assert reame("check", "--set", "server.api_keys_file=/etc/reame-test/keys") == 1


def test_show_prints_toml_that_reads_back_and_no_secret(capsys: pytest.CaptureFixture[str]) -> None:
    Path("keys").write_text("alice:s3cret\n")
    Path("c.toml").write_text('[server]\nhost = "0.0.0.0"\napi_keys_file = "keys"\n')
    assert reame("show", "--config", "c.toml", "--set", "server.port=9000") == 0
    text = capsys.readouterr().out
    assert 'host = "0.0.0.0"  # c.toml\nport = 9000  # --set\n' in text
    assert parse_config(text) == load_config("c.toml", sets=["server.port=9000"]).config
    assert "s3cret" not in text


def test_show_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert reame("show", "--json", "--set", "log.level=debug") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["source"] == "built-in defaults"
    assert shown["origins"] == {"log.level": "--set"}
    expected = json.loads(json.dumps(asdict(Config())))
    expected["log"]["level"] = "debug"
    assert shown["config"] == expected


def test_show_of_a_wrong_file_is_one_error() -> None:
    Path("c.toml").write_text("[server]\nport = -1\n")
    with pytest.raises(ConfigError, match=r"^c\.toml: server\.port: expected "):
        reame("show", "-c", "c.toml")
