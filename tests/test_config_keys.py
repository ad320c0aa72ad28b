"""API keys: read by name, unique, and never shown."""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from reame.config_check import ConfigMistakes
from reame.config_keys import ApiKey, load_api_keys
from reame.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


def keys_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "keys"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_named_and_bare_keys(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "# our clients\n\nalice:sk-1\n bob : sk:2 \r\nsk-3\n"
    keys = load_api_keys(keys_file(tmp_path, text))
    assert keys == (
        ApiKey("alice", "sk-1"),
        ApiKey("bob", "sk:2"),
        ApiKey(f"key-{sha256(b'sk-3').hexdigest()[:8]}", "sk-3"),
    )
    assert caplog.records == []


def test_a_key_without_a_name_twice_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"keys: line 3: the same key as in line 1$"):
        load_api_keys(keys_file(tmp_path, "sk-1\nsk-2\nsk-1\n"))


def test_a_secret_has_no_repr(tmp_path: Path) -> None:
    keys = load_api_keys(keys_file(tmp_path, "alice:s3cret\n"))
    assert repr(keys) == "(ApiKey(name='alice'),)"
    assert "s3cret" not in f"{keys} {keys[0]}"


def test_every_bad_line_is_reported_by_number_and_none_is_repeated(tmp_path: Path) -> None:
    secrets = ["s3cret one", "s3cret2", "n s3cret:x", "s3cret\x07", "s3crété"]
    text = "\n".join(
        ["a:", secrets[0], "b:s3cret2", "c:s3cret2", "b:s3cret4", secrets[2], secrets[3], secrets[4], ":x9"]
    )
    with pytest.raises(ConfigMistakes) as caught:
        load_api_keys(keys_file(tmp_path, text))
    name = "the part before the colon is not a name (1 to 64 letters, digits, '.', '_', '-')"
    printable = "a key is 1 to 512 printable ASCII characters without spaces"
    assert caught.value.mistakes == (
        "line 1: no key after the name",
        f"line 2: {printable}",
        "line 4: the same key as in line 3",
        "line 5: the same name as in line 3",
        f"line 6: {name}",
        f"line 7: {printable}",
        f"line 8: {printable}",
        f"line 9: {name}",
    )
    assert "s3cr" not in str(caught.value).replace(str(tmp_path), "")


@pytest.mark.parametrize("text", ["", "\n\n", "# alice:sk-1\n"])
def test_a_file_without_a_key_would_open_the_door(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"keys: no key in it; write one `name:key` a line$"):
        load_api_keys(keys_file(tmp_path, text))


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"^server\.api_keys_file .*/keys: cannot be read: no such file or directory$"
    ):
        load_api_keys(tmp_path / "keys")
    with pytest.raises(ConfigError, match=r"cannot be read: is a directory$"):
        load_api_keys(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot be read: not a path$"):
        load_api_keys("a\0b")
    with pytest.raises(ConfigError, match=r"larger than a file of keys can be"):
        load_api_keys("/dev/zero")
    (tmp_path / "keys").write_bytes(b"s\xe9cret")
    with pytest.raises(ConfigError, match=r"keys: not a text file$"):
        load_api_keys(tmp_path / "keys")


@pytest.mark.parametrize(("mode", "warned"), [(0o600, 0), (0o640, 0), (0o644, 1), (0o602, 1), (0o660, 1)])
def test_a_file_that_others_can_read_or_change_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, warned: int
) -> None:
    load_api_keys(keys_file(tmp_path, "alice:s3cret", mode))
    assert len(caplog.records) == warned
    for record in caplog.records:
        assert record.levelno == logging.WARNING
        assert record.getMessage().endswith(f"run: chmod 600 {tmp_path}/keys")
