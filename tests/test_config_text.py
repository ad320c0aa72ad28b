"""etc/reame.toml: every key, its default, and a line of why."""

from __future__ import annotations

import tomllib
from pathlib import Path

from reame.config import Config
from reame.config_check import KEYS, TABLES
from reame.config_load import Loaded, parse_config
from reame.config_text import default_text, effective_text

SHIPPED = Path(__file__).parent.parent / "etc" / "reame.toml"


def test_the_shipped_file_is_what_init_writes_and_equals_the_defaults() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert text == default_text(), "write it anew with: reame config init --force etc/reame.toml"
    assert parse_config(text) == Config()


def test_the_shipped_file_names_every_key_below_a_line_of_why() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    document = tomllib.loads(text)
    assert {f"{table}.{key}" for table, keys in document.items() for key in keys} == set(KEYS)
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line and not line.startswith("#"):
            assert lines[number - 1].startswith("# "), line
            assert 20 <= len(lines[number - 1]) <= 120 or line == "port = 8080", line
    whys = [key.metadata["why"] for key in KEYS.values()]
    assert len(set(whys)) == len(whys)
    assert all("\n" not in (table.__doc__ or "\n") for table in TABLES.values())


def test_show_marks_what_is_not_a_default_and_nothing_else() -> None:
    config = parse_config('[server]\nport = 9\nhost = "::1"\n[log]\nlevel = "info"')
    origins = {"server.port": "a.toml", "server.host": "--set", "log.level": "a.toml"}
    lines = effective_text(Loaded(config=config, source="a.toml", origins=origins)).splitlines()
    assert lines[0].startswith("# Read: a.toml. ")
    assert "port = 9  # a.toml" in lines
    assert 'host = "::1"  # --set' in lines
    assert 'level = "info"' in lines
    assert parse_config("\n".join(lines)) == config
