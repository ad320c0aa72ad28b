"""Which file counts, files that cannot be read, and --set."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import fields

from reame import config_load
from reame.config import Config
from reame.config_check import ConfigMistakes
from reame.config_load import Loaded, load_config, override, parse_set
from reame.errors import ConfigError


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, no system file, no $REAME_CONFIG."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_load, "SYSTEM_FILE", tmp_path / "system.toml")
    monkeypatch.delenv("REAME_CONFIG", raising=False)
    return tmp_path


def write(path: str, port: int) -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(f"[server]\nport = {port}\n")


def test_the_first_of_five_places_counts(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_config() == Loaded(config=Config(), source="built-in defaults", origins={})
    write("system.toml", 4)
    assert (load_config().config.server.port, load_config().source) == (4, str(nowhere / "system.toml"))
    write("etc/reame.toml", 3)
    assert (load_config().config.server.port, load_config().source) == (3, "etc/reame.toml")
    write("by_variable.toml", 2)
    monkeypatch.setenv("REAME_CONFIG", "by_variable.toml")
    assert (load_config().config.server.port, load_config().source) == (2, "by_variable.toml")
    write("by_flag.toml", 1)
    loaded = load_config("by_flag.toml")
    assert (loaded.config.server.port, loaded.source) == (1, "by_flag.toml")
    assert loaded.origins == {"server.port": "by_flag.toml"}
    monkeypatch.setenv("REAME_CONFIG", "")
    assert load_config().source == "etc/reame.toml"


def test_a_file_that_was_named_must_be_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    write("etc/reame.toml", 3)
    with pytest.raises(
        ConfigError, match=r"^no\.toml: cannot be read: no such file or directory \(named by --config\)$"
    ):
        load_config("no.toml")
    with pytest.raises(ConfigError, match=r"^etc: cannot be read: is a directory \(named by --config\)$"):
        load_config("etc")
    with pytest.raises(ConfigError, match=r'^"a\\u0000b": cannot be read: not a path'):
        load_config("a\0b")
    monkeypatch.setenv("REAME_CONFIG", "no.toml")
    with pytest.raises(ConfigError, match=r"no such file or directory \(named by \$REAME_CONFIG\)$"):
        load_config()


def test_a_file_that_is_there_but_unreadable_is_not_passed_over() -> None:
    Path("etc").mkdir()
    os.symlink("gone.toml", "etc/reame.toml")
    with pytest.raises(ConfigError, match=r"^etc/reame\.toml: cannot be read: no such file or directory \(found there"):
        load_config()


def test_bytes_that_are_no_config() -> None:
    Path("c.toml").write_bytes(b"[server]\n# caf\xe9\n")
    with pytest.raises(ConfigError, match=r"^c\.toml: line 2: not UTF-8 text$"):
        load_config("c.toml")
    with pytest.raises(ConfigError, match=r"^/dev/zero: larger than a config file can be"):
        load_config("/dev/zero")
    Path("c.toml").write_bytes(b"\xef\xbb\xbf[server]\r\nport = 5\r\n")
    assert load_config("c.toml").config.server.port == 5


def test_sets_go_over_the_file_and_mistakes_of_both_come_together() -> None:
    Path("c.toml").write_text('[server]\nhost = "0.0.0.0"\nport = 1\n[log]\nlevel = "loud"\n')
    with pytest.raises(ConfigMistakes) as caught:
        load_config("c.toml", sets=["server.prot=2"])
    assert caught.value.source == "c.toml and --set"
    assert [line.split(":")[0] for line in caught.value.mistakes] == ["server.prot", "log.level", "server.host"]
    loaded = load_config(
        "c.toml", sets=["log.level=debug", "server.api_keys_file=keys", "server.port=1", "server.port=2"]
    )
    assert (loaded.config.server.host, loaded.config.server.port, loaded.config.log.level) == ("0.0.0.0", 2, "debug")
    assert loaded.origins == {
        "server.host": "c.toml",
        "server.port": "--set",
        "server.api_keys_file": "--set",
        "log.level": "--set",
    }
    assert load_config(sets=["server={port=3}"]).origins == {"server.port": "--set"}


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("server.port=9000", "server.port", 9000),
        (" server.port = 9000 ", "server.port", 9000),
        ("engine.exact=true", "engine.exact", True),
        ("log.level=debug", "log.level", "debug"),
        ('log.level="debug"', "log.level", "debug"),
        ("server.host=127.0.0.1", "server.host", "127.0.0.1"),
        ("server.host=::1", "server.host", "::1"),
        ("model.id=", "model.id", ""),
        ("model.id=a=b", "model.id", "a=b"),
        ('server.cors_origins=["*"]', "server.cors_origins", ["*"]),
        ("server.port=1\nhost=2", "server.port", "1\nhost=2"),
    ],
)
def test_a_set_is_toml_and_a_bare_word_is_a_string(text: str, key: str, value: object) -> None:
    assert parse_set(text) == (key, value)


@pytest.mark.parametrize("text", ["", "=1", "server.port", "server.cors_origins=[", 'model.id="a', "a={"])
def test_a_set_that_is_none_is_one_clear_line(text: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^--set .*: (expected table\.key=value, such as .*|the value is not valid TOML)$"
    ):
        parse_set(text)


def test_override_changes_one_value_and_checks_the_whole() -> None:
    config = override(Config(), {"server.port": 9000})
    assert config.server.port == 9000
    assert override(config, {"server.port": 8080}) == Config()
    for key, value, line in [
        ("server.prot", 1, "server.prot: unknown key, did you mean server.port?"),
        ("port", 1, "port: unknown key, did you mean server.port?"),
        ("server.port", "80", 'server.port: expected an integer from 0 to 65535, got "80"'),
        ("server.port.x", 1, "server.port: expected an integer from 0 to 65535, got a table"),
        ("server", "x", 'server: expected a table, got "x"'),
        ("engine.context", 20000, None),
        ("engine.slots", 600, "engine.slots: expected an integer from 1 to 254, got 600"),
        ("", 1, f'"": unknown table; there are {", ".join(each.name for each in fields(Config))}'),
    ]:
        if line is None:
            assert override(Config(), {key: value}).engine.context == value
            continue
        with pytest.raises(ConfigMistakes) as caught:
            override(Config(), {key: value})
        assert str(caught.value) == f"--set: {line}"
