"""The chat template that an operator has written: `model.chat_template`."""

from __future__ import annotations

from pathlib import Path

from reame.config_rules import printable
from reame.errors import ConfigError


def load_template(path: str) -> str:
    """Its text. Raises ConfigError when the file cannot be read; whether it is a template shows with the model."""
    try:
        return Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"model.chat_template: {printable(path)}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"model.chat_template: {printable(path)}: not UTF-8 (byte {error.start})") from None
