"""Advice goes into a file and everything else stays."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reame.commands.doctor_write import change_of, write_settings
from reame.config_load import parse_config
from reame.config_text import default_text
from reame.doctor.advice import Report, Setting
from reame.doctor.rewrite import difference, edited
from reame.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

HAND_MADE = """\
# my machine
[engine]   # tuned by hand
threads = 2  # two are best
"slots" = 8

  # indented remark
[server]
port = 9000
"""


def test_only_the_values_change() -> None:
    new = edited(HAND_MADE, {"engine.threads": 4, "engine.cells": 4096, "memory.disk_mb": 512})
    assert "threads = 4  # two are best\n" in new
    assert new.startswith("# my machine\n[engine]   # tuned by hand\n")
    assert "  # indented remark\n[server]\nport = 9000\n" in new
    assert tomllib.loads(new) == {
        "engine": {"threads": 4, "slots": 8, "cells": 4096},
        "server": {"port": 9000},
        "memory": {"disk_mb": 512},
    }


def test_dotted_tables_and_inline_ones_work() -> None:
    assert tomllib.loads(edited("engine.threads = 2\n", {"engine.cells": 5}))["engine"] == {"threads": 2, "cells": 5}
    assert tomllib.loads(edited("engine = {threads = 2}\n", {"engine.threads": 1}))["engine"] == {"threads": 1}


@pytest.mark.parametrize("text", ["engine = 3\n", "engine = [1]\n", "[engine\n"])
def test_what_cannot_be_edited_is_said(text: str) -> None:
    with pytest.raises(ConfigError, match="the advice cannot be put into the file"):
        edited(text, {"engine.threads": 1})


@settings(deadline=None, max_examples=25)
@given(
    st.dictionaries(
        st.sampled_from(["engine.threads", "engine.slots", "engine.spin_count", "memory.disk_mb"]), st.integers(1, 200)
    )
)
def test_the_shipped_file_changes_in_those_lines_only(values: dict[str, int]) -> None:
    old = default_text()
    new = edited(old, values)
    assert len(new.splitlines()) == len(old.splitlines())
    changed = [after for before, after in zip(old.splitlines(), new.splitlines(), strict=True) if before != after]
    assert len(changed) <= len(values)
    config = parse_config(new)
    for key, value in values.items():
        table, name = key.split(".")
        assert getattr(getattr(config, table), name) == value


def test_the_difference_is_what_a_person_reads() -> None:
    assert difference("a = 1\n", "a = 1\n", "file") == ""
    shown = difference("a = 1\nb = 2\n", "a = 1\nb = 3\n", "etc/reame.toml")
    assert "-b = 2\n+b = 3\n" in shown
    assert shown.startswith("--- etc/reame.toml (now)\n+++ etc/reame.toml (advised)\n")


async def test_a_file_with_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    """As Windows' editor leaves one."""
    file = tmp_path / "reame.toml"
    file.write_text(HAND_MADE, "utf-8-sig")
    setting = Setting("engine.threads", 4, "the fastest")
    nothing: Any = None
    report = Report(machine=nothing, measured=None, facts=(), findings=(), settings=(setting,), fits=())
    await write_settings(change_of(file, report, model=""), ask=False)
    assert tomllib.loads(file.read_text("utf-8"))["engine"] == {"threads": 4, "slots": 8}
