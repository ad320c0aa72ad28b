"""`reame pull`, `reame list` and `reame rm`: the models on this machine and those it could have."""

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import cyclopts
import trio
from attrs import frozen

from reame.catalog import (
    CATALOG,
    DEFAULT_MODEL,
    Entry,
    entry,
    identify,
    installed,
    models_dir,
    split_parts,
)
from reame.commands.progress import Lines, shown_on
from reame.errors import ModelError
from reame.pull import pull as pull_model
from reame.pull_file import bytes_text, leftovers, only_one

PIPE_WIDTH = 200  # columns of a table that no terminal limits

Wanted = Annotated[str, cyclopts.Parameter(help="A name from `reame list`, or hf:owner/repository/file.gguf.")]
Removed = Annotated[str, cyclopts.Parameter(help="The name of an installed model, exactly as `reame list` shows it.")]
AsJson = Annotated[
    bool, cyclopts.Parameter(name="--json", negative=(), show_default=False, help="For programs: a JSON array.")
]
Yes = Annotated[bool, cyclopts.Parameter(name=["--yes", "-y"], negative=(), show_default=False, help="Do not ask.")]


def register(app: cyclopts.App) -> None:
    """Add the three commands to `app`."""
    app.command(pull)
    app.command(list_models, name="list")
    app.command(rm)


async def pull(name: Wanted, /) -> int:
    """Download a model into the models directory (`$REAME_MODELS`, else ~/.reame/models).

    Goes on where an interrupted pull stopped, and checks size and checksum. HF_ENDPOINT names a mirror of Hugging
    Face; HF_TOKEN is needed for models whose licence must be accepted there.
    """
    named = identify(name, models_dir())
    here = all(part.exists() for part in split_parts(named.path))
    if not here:
        with shown_on(sys.stderr) as progress:
            await pull_model(named, progress=progress)
    known = entry(named.name)
    print(f"{named.path} {'was here already' if here else 'is here'} ({bytes_text(_size(named.path))})")
    if known and known.has_terms:
        print(f"its licence: {known.licence}")
    print(f"try it: reame run {named.name}")
    return 0


async def list_models(*, as_json: AsJson = False) -> int:
    """Show the models that are installed and those of the catalogue.

    RAM is what to plan for with the default configuration; a smaller engine.cells needs less. Sizes with ~ are
    approximate.
    """
    directory = models_dir()
    rows = _rows(directory)
    if as_json:
        print(json.dumps([row.as_json() for row in rows], indent=2))
    else:
        _print_tables(rows, directory)
    return 0


async def rm(name: Removed, /, *, yes: Yes = False) -> int:
    """Delete an installed model, or what an interrupted pull of it left. Asks first."""
    directory = models_dir()
    first = _first_file(name, directory)
    files = _files_of(first)
    if not files:
        names = ", ".join(installed(directory)) or "none"
        raise ModelError(f"no model called {name!r} is installed in {directory} (there: {names})")
    size = sum(file.lstat().st_size for file in files)
    if not yes and not await _confirmed(f"delete {', '.join(map(str, files))} ({bytes_text(size)})? [y/N] "):
        print("kept")
        return 1
    try:
        async with only_one(first, Lines(sys.stderr)):
            for file in files:
                file.unlink(missing_ok=True)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ModelError(f"{name} cannot be deleted from {directory}: {reason}") from None
    print(f"deleted {name}: {bytes_text(size)} freed")
    return 0


@frozen
class Row:
    """One model of the list: known to the catalogue, or installed, or both."""

    name: str
    path: Path | None
    known: Entry | None

    @property
    def size(self) -> int:
        """Bytes: of the file when it is here, else as the catalogue says."""
        if self.path is not None:
            return _size(self.path)
        return self.known.size if self.known else 0

    @property
    def size_text(self) -> str:
        about = "~" if self.path is None and self.known and not self.known.size_is_exact else ""
        return about + bytes_text(self.size)

    def as_json(self) -> dict[str, Any]:
        known = self.known
        return {
            "name": self.name,
            "installed": self.path is not None,
            "path": str(self.path) if self.path else None,
            "size": self.size,
            "size_is_exact": self.path is not None or bool(known and known.size_is_exact),
            "title": known.title if known else None,
            "quantisation": known.source.quantisation if known else None,
            "ram": known.ram if known else None,
            "context": known.context if known else None,
            "licence": known.licence if known else None,
            "advice": known.advice if known else None,
            "source": str(known.source) if known else None,
        }


def _rows(directory: Path) -> list[Row]:
    here = installed(directory)
    rows = [Row(name, path, entry(name)) for name, path in here.items()]
    return rows + [Row(known.name, None, known) for known in CATALOG if known.name not in here]


def _print_tables(rows: list[Row], directory: Path) -> None:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else PIPE_WIDTH
    here = [row for row in rows if row.path is not None]
    rest = [row for row in rows if row.path is None]
    print(f"Installed in {directory}:" if here else f"No model is installed in {directory}: reame pull {DEFAULT_MODEL}")
    print(*_table(here, width), sep="\n")
    if rest:
        print("In the catalogue, for `reame pull NAME`:")
        print(*_table(rest, width), sep="\n")


def _table(rows: list[Row], width: int) -> list[str]:
    """The lines of a table and an empty one; advice that does not fit beside its model goes below it."""
    cells = [("Name", "Size", "RAM", "Context", "Weights", "Licence"), *map(_facts, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    advice = ["", *(row.known.advice if row.known else "" for row in rows)]
    lines = []
    for facts, text in zip(cells, advice, strict=True) if rows else ():
        aligned = zip(facts, widths, "<>>><<", strict=True)
        line = "  ".join(f"{fact:{side}{size}}" for fact, size, side in aligned)
        if len(line) + 2 + len(text) <= width:
            lines.append(f"{line}  {text}".rstrip())
        else:
            lines += [line.rstrip(), *textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ")]
    return [*lines, ""]


def _facts(row: Row) -> tuple[str, str, str, str, str, str]:
    known = row.known
    if known is None:
        return (row.name, row.size_text, "", "", "", "")
    context = f"{known.context // 1024}k"
    return (row.name, row.size_text, bytes_text(known.ram), context, known.source.quantisation, known.licence)


def _size(path: Path) -> int:
    return sum(part.stat().st_size for part in split_parts(path) if part.exists())


def _first_file(name: str, directory: Path) -> Path:
    """Where the model of this name is or would be, which is directly in the models directory, or ModelError."""
    given = Path(os.path.expanduser(name))
    if given.name != name and given.parent.resolve() != directory.resolve():
        raise ModelError(f"{name!r} is not in {directory}: delete it yourself if you mean it")
    stem = given.name.removesuffix(".gguf")
    return installed(directory).get(stem, directory / f"{stem}.gguf")


def _files_of(first: Path) -> list[Path]:
    """All files of the model that starts at `first`, and what interrupted pulls left of them."""
    files = [file for part in split_parts(first) for file in (part, *leftovers(part))]
    return [file for file in files if file.is_file() or file.is_symlink()]


async def _confirmed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise ModelError("nobody can be asked here: say --yes to delete")
    print(question, end="", file=sys.stderr, flush=True)
    answer = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return answer.strip().casefold() in ("y", "yes")
