"""docs/api.md names every endpoint, every field that is read, every error code and all of the `reame` object."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripted import NoMetrics, ScriptedIntake, finish

import reame
from reame.api.app import create_app
from reame.api.errors import _CODES
from reame.api.replies import Tally
from reame.config import Config

PACKAGE = Path(reame.__file__).parent
TEXT = (PACKAGE.parent / "docs" / "api.md").read_text("utf-8")
NAMED = set(re.findall(r"[\w./{}-]+", " ".join(re.findall(r"`([^`\n]+)`", TEXT))))
READ = re.compile(r'(?:fields|inner|options|shape|own|message|function|table|_required\(\w+)(?:\.\w+\(|, )"(\w+)"')


def fields_read() -> set[str]:
    sources = [file.read_text("utf-8") for file in (PACKAGE / "api").glob("schema*.py")]
    return {name for source in sources for name in READ.findall(source)}


def codes() -> set[str]:
    sources = [file.read_text("utf-8") for file in PACKAGE.rglob("*.py") if "commands" not in file.parts]
    return {name for source in sources for name in re.findall(r'code="(\w+)"', source)}


def test_the_endpoints() -> None:
    app = create_app(Config(), ScriptedIntake(), NoMetrics(), ())  # type: ignore[arg-type]
    for rule in app.url_map.iter_rules():
        path = rule.rule.replace("<path:name>", "{id}").replace("<name>", "{id}")
        assert path in NAMED or f"/v1{path}" in NAMED, path


def test_the_fields() -> None:
    read = fields_read()
    assert {"prompt", "messages", "top_k", "ttl_s", "include_usage", "answers", "tool_call_id"} <= read
    assert read - {"type", "text", "function", "id"} <= NAMED


@pytest.mark.parametrize("status", sorted(set(_CODES) - {429}))
def test_the_statuses(status: int) -> None:
    assert f"\n| {status} |" in TEXT
    assert _CODES[status] in NAMED


def test_the_codes() -> None:
    assert len(codes()) > 5
    assert codes() | {f"server_{status}" for status in ("loading", "draining")} <= NAMED


def test_the_reame_object() -> None:
    tally = Tally(1)
    tally.add(0, finish())
    assert set(tally.reame(5)) <= NAMED
