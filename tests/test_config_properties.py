"""Any document, bytes or --set whatever gives a Config or a ConfigError; and what is shown reads back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tomli_w
from attrs import asdict
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from reame import config_load
from reame.config import Config
from reame.config_check import KEYS, TABLES, ConfigMistakes
from reame.config_load import Loaded, load_config, override, parse_config
from reame.config_rules import Choice, Flag, Host, Names, Number, Origins, Whole
from reame.config_text import effective_text
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config_load, "SYSTEM_FILE", tmp_path / "system.toml")
    monkeypatch.delenv("REAME_CONFIG", raising=False)


NAMES = st.sampled_from(sorted({*TABLES, *(key.name for key in KEYS.values())}))
TYPOS = st.builds(lambda name, at, char: name[:at] + char + name[at + 1 :], NAMES, st.integers(0, 9), st.characters())
SCALARS = st.one_of(
    st.none().map(lambda _: "80"),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(max_size=8),
    st.dates(),
    st.datetimes(),
    st.times(),
)
WORDS = NAMES | TYPOS | st.text(max_size=5)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3), max_leaves=6
)
TOML_PIECES = ["[", "]", "[server]", "port", "=", ".", '"', "'", "\n", "{", "}", ",", "1", "e9", "\\", "#", "x", " "]
VALID_KEYS = st.sampled_from(sorted(KEYS))


def valid(rule: Any) -> st.SearchStrategy[Any]:
    """Values that the rule of a key accepts."""
    match rule:
        case Whole():
            return st.integers(rule.low, rule.high)
        case Number():
            return st.floats(rule.low, rule.high)
        case Flag():
            return st.booleans()
        case Choice():
            return st.sampled_from(rule.choices)
        case Host():
            return st.sampled_from(["127.0.0.1", "::1", "localhost"]) | st.ip_addresses().map(str)
        case Names():
            return st.lists(st.sampled_from(["*", "example.org", "box"]), max_size=3)
        case Origins():
            return st.lists(st.sampled_from(["*", "https://example.org", "http://localhost:3000"]), max_size=3)
    printable = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=20)
    return printable.map(lambda text: text + " \"\\'#")


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A few valid values, so that rules between keys come into play, beside arbitrary ones."""
    document: dict[str, Any] = draw(st.dictionaries(WORDS, VALUES, max_size=3))
    for dotted in draw(st.lists(VALID_KEYS, max_size=6)):
        name, key = dotted.split(".")
        table = document.setdefault(name, {})
        if isinstance(table, dict):
            table[key] = draw(valid(KEYS[dotted].metadata["rule"]) | VALUES)
    return document


def outcome(load: Callable[[], Config | Loaded]) -> Config | Loaded | ConfigError:
    """What loading gives; any exception but a ConfigError escapes and fails the test."""
    try:
        return load()
    except ConfigError as error:
        return error


def printable_lines(result: object) -> bool:
    return not isinstance(result, ConfigError) or all(line.isprintable() for line in str(result).splitlines())


@given(documents())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_document_gives_a_config_or_lines_that_can_be_printed(document: dict[str, Any]) -> None:
    result = outcome(lambda: parse_config(tomli_w.dumps(document)))
    assert printable_lines(result)
    if isinstance(result, ConfigMistakes):
        assert len(str(result).splitlines()) == len(result.mistakes) + (len(result.mistakes) > 1)
    else:
        assert isinstance(result, Config)
        assert set(document) <= set(TABLES)


@given(st.lists(st.sampled_from(TOML_PIECES)))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_a_config_or_a_config_error(parts: list[str]) -> None:
    assert printable_lines(outcome(lambda: parse_config("".join(parts))))


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_in_a_file_give_a_config_or_a_config_error(data: bytes) -> None:
    Path("any.toml").write_bytes(data)
    assert printable_lines(outcome(lambda: load_config("any.toml")))


@given(st.text(max_size=20) | st.builds("{}={}".format, VALID_KEYS | WORDS, st.text(max_size=12) | SCALARS.map(repr)))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_set_gives_a_config_or_a_config_error(text: str) -> None:
    assert printable_lines(outcome(lambda: load_config(sets=[text])))


@given(st.dictionaries(VALID_KEYS, st.data(), max_size=5))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_shown_config_reads_back_as_the_same_config(drawn: dict[str, st.DataObject]) -> None:
    values = {key: data.draw(valid(KEYS[key].metadata["rule"])) for key, data in drawn.items()}
    try:
        config = override(Config(), values)
    except ConfigMistakes:
        assume(False)  # rules between keys
        return
    loaded = Loaded(config=config, source="x.toml", origins=dict.fromkeys(KEYS, "x.toml"))
    assert parse_config(effective_text(loaded)) == config
    assert override(config, {}) == config
    defaults, given_values = asdict(Config()), asdict(config)
    changed = [key for key in KEYS if _at(defaults, key) != _at(given_values, key)]
    assert effective_text(loaded).count("  # x.toml\n") == len(changed)


def _at(values: dict[str, Any], dotted: str) -> object:
    table, key = dotted.split(".")
    return values[table][key]
