"""Log lines as operators and collectors read them, from a process of their own: logging is global."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"

SPEAK = """
import logging
from reame.runtime.logs import configure, event
log = logging.getLogger("reame.x")
configure({level!r}, {format!r})
{body}
"""


def speak(body: str, *, level: str = "info", format: str = "text", **popen: Any) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", SPEAK.format(level=level, format=format, body=body)],
        stderr=popen.pop("stderr", subprocess.PIPE), stdout=subprocess.PIPE, text=True, check=True, **popen,
    )  # fmt: skip
    assert done.stdout == ""
    return (done.stderr or "").splitlines()


REQUEST = 'event(log, "request", id="r1", tokens=12, tok_s=41.23456789, note=None, stream=True, name="a b", error="")'


def test_an_event_is_a_line_of_keys_and_values() -> None:
    (line,) = speak(REQUEST)
    assert re.fullmatch(f'{TIME} INFO request id=r1 tokens=12 tok_s=41.2346 stream=true name="a b" error=""', line)


def test_an_event_as_json() -> None:
    (line,) = speak(REQUEST, format="json")
    record = json.loads(line)
    assert re.fullmatch(TIME, record.pop("time"))
    assert record == {
        "level": "info", "logger": "reame.x", "message": "request", "id": "r1", "tokens": 12, "tok_s": 41.23456789,
        "stream": True, "name": "a b", "error": "",
    }  # fmt: skip


@pytest.mark.parametrize(("level", "expected"), [("debug", "diwe"), ("info", "iwe"), ("warning", "we"), ("error", "e")])
def test_levels_are_reame_s_and_libraries_speak_from_warning_on(level: str, expected: str) -> None:
    body = (
        'log.debug("d"); log.info("i"); log.warning("w"); log.error("e")\n'
        'other = logging.getLogger("hypercorn.error"); other.info("no"); other.warning("lib")'
    )
    assert [line.split()[-1] for line in speak(body, level=level)] == [*expected, "lib"]


def test_events_are_not_even_built_below_their_level() -> None:
    assert speak(REQUEST, level="warning") == []


@pytest.mark.parametrize(
    "hostile", ["a\nERROR forged=1", "a\x1b[31m", "a\x9b31m", "a\u2028b", 'a" level=x', "a=b", "\ud800"]
)
def test_what_comes_from_outside_stays_inside_its_value(hostile: str) -> None:
    lines = speak(f'event(log, "request", key={hostile!r}, last=1); log.warning("said %s", {hostile!r})')
    assert len(lines) == 2
    assert all(line.isprintable() for line in lines)
    quoted = re.fullmatch(f'{TIME} INFO request key=(".*") last=1', lines[0])
    assert quoted is not None
    assert json.loads(quoted[1]) == hostile
    parsed = [json.loads(line) for line in speak(f'event(log, "request", key={hostile!r})', format="json")]
    assert [record["key"] for record in parsed] == [hostile]


def test_text_of_any_language_stays_readable() -> None:
    (line,) = speak('event(log, "model", name="però-模型")', env={**os.environ, "PYTHONIOENCODING": "utf-8"})
    assert line.endswith(" name=però-模型")


def test_fields_cannot_replace_what_every_record_has() -> None:
    (line,) = speak('event(log, "request", level="fake", time=0, path=__import__("pathlib").Path("m"))', format="json")
    record = json.loads(line)
    assert (record["level"], record["path"]) == ("info", "m")
    assert re.fullmatch(TIME, record["time"])


FAULT = 'try:\n    1 / 0\nexcept ZeroDivisionError:\n    log.exception("step failed")'


def test_a_traceback_follows_indented_in_text_and_inside_in_json() -> None:
    first, *rest = speak(FAULT)
    assert re.fullmatch(f"{TIME} ERROR step failed", first)
    assert rest[0] == "  Traceback (most recent call last):"
    assert rest[-1] == "  ZeroDivisionError: division by zero"
    assert all(line.startswith("  ") for line in rest)
    (line,) = speak(FAULT, format="json")
    assert json.loads(line)["traceback"].endswith("ZeroDivisionError: division by zero")


def test_a_second_configuration_replaces_the_first() -> None:
    assert len(speak('configure("info", "json"); log.info("once")')) == 1


def test_the_journal_gets_priorities_and_no_time() -> None:
    """A pipe stands in for the journal's socket: systemd names it by device and inode."""
    reader, writer = os.pipe()
    with open(reader) as log:
        with os.fdopen(writer, "w") as end:
            where = os.fstat(end.fileno())
            journal = {**os.environ, "JOURNAL_STREAM": f"{where.st_dev}:{where.st_ino}"}
            speak('event(log, "request", id=1); log.warning("w"); ' + "log.error('e')", stderr=end, env=journal)
            speak(FAULT, stderr=end, env=journal, format="json")
        lines = log.read().splitlines()
    assert lines[:3] == ["<6>INFO request id=1", "<4>WARNING w", "<3>ERROR e"]
    assert lines[3].startswith('<3>{"time": ')
    assert len(lines) == 4


def test_another_stream_than_the_journal_s_is_plain() -> None:
    (line,) = speak('log.info("i")', env={**os.environ, "JOURNAL_STREAM": "1:1"})
    assert re.fullmatch(f"{TIME} INFO i", line)
