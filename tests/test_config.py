"""What a config may hold: the rules of single keys, the rules between keys, and how mistakes are told."""

from __future__ import annotations

import datetime
from typing import Any, get_type_hints

import pytest
from attrs import evolve, fields
from attrs.exceptions import FrozenInstanceError

from reame.config import Config, EngineConfig, SamplingConfig, ServerConfig
from reame.config_check import KEYS, TABLES, ConfigMistakes, check
from reame.config_load import parse_config
from reame.config_rules import Choice, Flag, Host, Names, Number, Origins, Text, Whole, is_loopback
from reame.errors import ConfigError


def mistakes(text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigMistakes) as caught:
        parse_config(text)
    return caught.value.mistakes


def of(rule: type[Any]) -> list[Any]:
    return [pytest.param(key, id=dotted) for dotted, key in KEYS.items() if isinstance(key.metadata["rule"], rule)]


def refused(key: Any, value: object) -> bool:
    try:
        key.metadata["rule"].accept(value)
    except ValueError as error:
        return str(error).startswith("expected ")
    return False


def test_an_empty_document_is_the_defaults_and_these_are_consistent() -> None:
    assert parse_config("") == Config()


def test_every_key_has_exactly_one_rule_of_the_right_kind() -> None:
    kinds: dict[object, tuple[type[Any], ...]] = {
        str: (Text, Choice, Host),
        int: (Whole,),
        float: (Number,),
        bool: (Flag,),
        tuple[str, ...]: (Names, Origins),
    }
    for dotted, key in KEYS.items():
        kind = get_type_hints(TABLES[dotted.split(".")[0]])[key.name]
        assert isinstance(key.metadata["rule"], kinds[kind]), dotted
        assert key.metadata["rule"].accept(key.default) == key.default, dotted


@pytest.mark.parametrize("key", of(Whole))
def test_an_integer_is_an_integer_within_its_range(key: Any) -> None:
    rule = key.metadata["rule"]
    assert rule.accept(rule.low) == rule.low
    assert rule.accept(rule.high) == rule.high
    value: object
    for value in (rule.low - 1, rule.high + 1, str(rule.low), float(rule.high), True, None, [rule.low], {}, 10**400):
        assert refused(key, value), value


@pytest.mark.parametrize("key", of(Number))
def test_a_number_may_be_written_as_an_integer_but_not_as_text_or_nan(key: Any) -> None:
    rule = key.metadata["rule"]
    low = rule.accept(int(rule.low) if rule.low == int(rule.low) else rule.low)
    assert (low, type(low)) == (rule.low, float)
    nan, inf = float("nan"), float("inf")
    for value in (rule.low - 0.01, rule.high + 0.01, str(rule.high), True, nan, inf, -inf, 10**400, [rule.low]):
        assert refused(key, value), value


@pytest.mark.parametrize("key", of(Flag))
def test_a_flag_is_true_or_false(key: Any) -> None:
    value: object
    for value in (0, 1, "true", "", [], None):
        assert refused(key, value), value


@pytest.mark.parametrize("key", [*of(Text), *of(Choice), *of(Host)])
def test_a_string_is_a_string_on_one_line(key: Any) -> None:
    value: object
    for value in (1, True, ["a"], {}, None, datetime.date(2024, 1, 1), "a\nb", "\x1b[31m", "\udcff"):
        assert refused(key, value), value


def test_a_path_may_begin_in_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    config = parse_config(
        "memory.path = '~/m'\nbatch.path = '~'\nmodel.chat_template = '~/t.jinja'\nserver.api_keys_file = '/k~'\n"
    )
    assert (config.memory.path, config.batch.path) == ("/home/ann/m", "/home/ann")
    assert (config.model.chat_template, config.server.api_keys_file) == ("/home/ann/t.jinja", "/k~")


def test_a_string_is_not_a_list_of_letters() -> None:
    assert mistakes('[server]\ncors_origins = "*"') == (
        'server.cors_origins: expected a list of origins such as "https://example.org" or "*", got "*"',
    )
    config = parse_config('[server]\ncors_origins = ["*", "http://localhost:3000", "http://[::1]:80"]')
    assert config.server.cors_origins == ("*", "http://localhost:3000", "http://[::1]:80")
    for origin in ("https://example.org/", "example.org", "", "https://a b", "http://x:y"):
        assert mistakes(f'[server]\ncors_origins = ["{origin}"]')[0].endswith(f'got a list with "{origin}"')


def test_names_are_names_without_ports() -> None:
    config = parse_config('[server]\nnames = ["llm.example.org", "*", "box"]')
    assert config.server.names == ("llm.example.org", "*", "box")
    for name in ("https://example.org", "box:8080", "", "a b", "-x"):
        assert mistakes(f'[server]\nnames = ["{name}"]')[0].endswith(f'got a list with "{name}"')
    assert "a list of names" in mistakes('[server]\nnames = "box"')[0]


def test_every_mistake_is_reported_at_once_one_line_each() -> None:
    text = """
        port = 80
        sever = {}
        [engine]
        thread = 2
        context = "4096"
        slots = true
        kv_type = "q9"
        [sampling]
        top_p = 1.5
        [server]
        port = "80"
        threads = 2
        zzz = 1
    """
    assert mistakes(text) == (
        'engine.context: expected an integer from 1 to 16777216, got "4096"',
        "engine.slots: expected an integer from 1 to 254, got true",
        'engine.kv_type: expected one of "f16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", got "q9"',
        "engine.thread: unknown key, did you mean engine.threads?",
        "sampling.top_p: expected a number from 0 to 1, got 1.5",
        'server.port: expected an integer from 0 to 65535, got "80"',
        "server.threads: unknown key, did you mean engine.threads?",
        "server.zzz: unknown key",
        "port: unknown key, did you mean server.port?",
        "sever: unknown table, did you mean [server]?",
    )


def test_one_mistake_is_one_line_and_more_stand_below_the_source() -> None:
    with pytest.raises(ConfigError, match=r"^my\.toml: log\.level: expected one of .*, got 3$"):
        parse_config("[log]\nlevel = 3", "my.toml")
    with pytest.raises(ConfigError) as caught:
        parse_config("[log]\nlevel = 3\nformat = 4", "my.toml")
    assert str(caught.value).splitlines()[0] == "my.toml: 2 mistakes"
    assert [line.split(":")[0] for line in str(caught.value).splitlines()[1:]] == ["  log.level", "  log.format"]


def test_a_table_must_be_a_table_and_a_value_must_not_be_one() -> None:
    assert mistakes("server = 80") == ("server: expected a table, got 80",)
    assert mistakes("[[server]]\nport = 1") == ("server: expected a table, got a list",)
    assert mistakes("[server.port]\nx = 1") == ("server.port: expected an integer from 0 to 65535, got a table",)
    tables = ", ".join(table.name for table in fields(Config))
    assert mistakes("[foo]") == (f"foo: unknown table; there are {tables}",)


def test_names_and_values_from_the_file_are_repeated_harmlessly() -> None:
    long = "x" * 1000
    lines = mistakes(f'[log]\nlevel = "{long}"\n"a\\nb\\u001b" = 1\n"{long}" = 1')
    assert all(line.isprintable() and len(line) < 200 for line in lines)
    assert r'log."a\nb\u001b": unknown key' in lines


def test_a_number_too_long_to_print_is_not_printed() -> None:
    line = "server.port: expected an integer from 0 to 65535, got an enormous integer"
    assert mistakes(f"[server]\nport = 0x{'f' * 9000}") == (line,)


def test_toml_faults_have_a_line_and_a_column() -> None:
    with pytest.raises(ConfigError, match=r"^my\.toml: line 2, column 8: not valid TOML: "):
        parse_config("[server]\nport = = 1\n", "my.toml")
    with pytest.raises(ConfigError, match=r"^my\.toml: line 2, column 8: not valid TOML: invalid value$"):
        parse_config("[server]\nport = ", "my.toml")
    with pytest.raises(ConfigError, match=r"^my\.toml: not usable TOML: "):
        parse_config("a = " + "[" * 5000, "my.toml")
    with pytest.raises(ConfigError, match=r"^my\.toml: not usable TOML: "):
        parse_config("a = " + "9" * 5000, "my.toml")


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("cells = 4096", "engine.cells: expected at least engine.context (8192) or 0 for twice that, got 4096"),
        (
            "slots = 250\nresidents = 5",
            "engine.residents: expected at most 254 together with engine.slots (250), got 5",
        ),
        (
            "batch_rows = 15",
            "engine.batch_rows: expected at least engine.slots (16), a row for each running request, got 15",
        ),
        ("flash_attention = false", 'engine.flash_attention: expected true, as kv_type is "q8_0"; or use "f16"'),
        (
            'exact = true\nkv_type = "f16"',
            'engine.exact: expected false, as only kv_type = "q8_0" with flash_attention = true is exact',
        ),
        (
            'exact = true\nextra_buffers = "on"',
            'engine.exact: expected false, as extra_buffers is "on"; or use "auto" or "off"',
        ),
        ("[sampling]\nmax_tokens = 9000", "sampling.max_tokens: expected at most engine.context (8192), got 9000"),
    ],
)
def test_rules_between_keys(text: str, mistake: str) -> None:
    assert mistakes(f"[engine]\n{text}") == (mistake,)


@pytest.mark.parametrize(
    "text",
    [
        "cells = 8192",
        "slots = 250\nresidents = 4\nbatch_rows = 250",
        'flash_attention = false\nkv_type = "f16"',
        'exact = true\nextra_buffers = "off"',
        "context = 9000\n[sampling]\nmax_tokens = 9000",
    ],
)
def test_rules_between_keys_let_the_edge_through(text: str) -> None:
    parse_config(f"[engine]\n{text}")


def test_a_rule_between_keys_waits_until_each_of_them_is_right() -> None:
    assert len(mistakes('[engine]\ncells = 4096\ncontext = "8192"')) == 1
    assert len(mistakes("engine = 1\n[sampling]\nmax_tokens = 9000")) == 1
    assert len(mistakes('[engine]\ncells = 4096\nthreads = "2"')) == 2


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "127.0.0.1.example.org", "::ffff:10.0.0.1"]
)
def test_other_machines_are_not_served_without_a_key(host: str) -> None:
    (line,) = mistakes(f'[server]\nhost = "{host}"')
    assert line == (
        f'server.host: "{host}" is reachable from other machines and no key is asked for: '
        'name a file of keys in server.api_keys_file, or listen on "127.0.0.1"'
    )
    assert parse_config(f'[server]\nhost = "{host}"\napi_keys_file = "keys"').server.host == host


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost", "LOCALHOST", "::ffff:127.0.0.1"])
def test_loopback_needs_no_key(host: str) -> None:
    assert is_loopback(host)
    assert parse_config(f'[server]\nhost = "{host}"').server.host == host


@pytest.mark.parametrize("host", ["", " 127.0.0.1", "127.0.0.1:80", "[::1]", "http://x", "a b", "-x", "*"])
def test_what_is_not_a_host(host: str) -> None:
    assert mistakes(f'[server]\nhost = "{host}"')[0].startswith("server.host: expected an address such as ")


def test_values_set_in_code_obey_the_same_rules_and_stay() -> None:
    with pytest.raises(ValueError, match=r"^port: expected an integer from 0 to 65535, got 70000$"):
        ServerConfig(port=70000)
    with pytest.raises(ValueError, match=r"^threads: expected an integer"):
        evolve(EngineConfig(), threads=-1)
    with pytest.raises(FrozenInstanceError):
        Config().server.port = 1  # type: ignore[misc]
    temperature = SamplingConfig(temperature=1).temperature
    assert (temperature, type(temperature)) == (1.0, float)
    assert hash(Config()) == hash(check({}, "nothing"))
