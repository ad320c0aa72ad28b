"""The files that the commands take and write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.errors import BenchError
from reame.catalog import identify, models_dir, resolve


def model_file(spec: str) -> Path:
    """The file of a model, fetched first when the catalogue knows it and it is not here."""
    named = identify(spec, models_dir())
    if named.source is not None and not named.path.exists():
        pull = subprocess.run([Path(sys.executable).with_name("reame"), "pull", spec], check=False)
        if pull.returncode:
            raise BenchError(f"without the model {named.name} there is nothing to measure")
    return resolve(spec).absolute()


def write(path: Path | None, text: str) -> None:
    try:
        if path is not None:
            path.write_text(text)
    except OSError as error:
        raise BenchError(f"cannot write {path}: {error.strerror}") from error


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise BenchError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BenchError(f"{path} is no text") from error
