"""`reame archive stats | import | clear | forget`: what was generated, as a source of drafts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from reame.commands.parameters import AsJson, File, Key, Sets
from reame.config_load import load_config

if TYPE_CHECKING:
    from reame.commands.archive_work import Here

OwnKey = Annotated[
    str, Parameter(show_default=False, help="Whose texts they are, where each API key has a memory of its own.")
]
Texts = Annotated[
    tuple[Path, ...],
    Parameter(
        negative="",
        show_default=False,
        help="Text files, each one text; or .jsonl: lines of {\"text\": ...}, of OpenAI's answers, of batch results.",
    ),
]


def register(app: App) -> None:
    """Add `archive` and its commands to the command line."""
    archive = App(name="archive", help="Look after the archive of what was generated, from which texts are drafted.")
    for command in (stats, clear, forget):
        archive.command(command)
    archive.command(import_texts, name="import")
    app.command(archive)


def stats(*, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Show how much is kept, of how many tokenizers and keys, and how much may be. Reads the whole archive."""
    from reame.commands import archive_work

    archive_work.show_stats(_here(config, sets), as_json=as_json)
    return 0


def clear(*, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Delete everything. A daemon that runs goes on and keeps new things."""
    from reame.commands import archive_work

    return archive_work.clear(_here(config, sets), as_json=as_json)


def forget(*, key: Key, config: File = None, sets: Sets = (), as_json: AsJson = False) -> int:
    """Delete what was generated for one API key. A daemon that runs lets go of it with that key's next request."""
    from reame.commands import archive_work

    return archive_work.forget(_here(config, sets), key, as_json=as_json)


def import_texts(
    files: Texts, /, *, key: OwnKey = "", config: File = None, sets: Sets = (), as_json: AsJson = False
) -> int:
    """Take in texts that you have already, such as yesterday's outputs: what comes again is then drafted from them.

    They are read with the tokenizer of the configured model (--set model.path=NAME for another). A daemon that runs
    uses them from its next request on.
    """
    from reame.commands import archive_import

    return archive_import.take_in(_here(config, sets), files, key=key, as_json=as_json)


def _here(path: Path | None, sets: tuple[str, ...]) -> Here:
    from reame.commands.archive_work import here

    return here(load_config(path, sets=sets).config)
