"""Options that several commands have, with the same name, form and words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

File = Annotated[
    Path | None,
    Parameter(name=["--config", "-c"], help="The daemon's TOML file; without it, the one that `reame serve` reads."),
]
Sets = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set",
        negative="",
        show_default=False,
        help="A single setting, such as --set engine.context=4096. May be repeated; wins over the file.",
    ),
]
AsJson = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="For programs: JSON.")]
Key = Annotated[str, Parameter(help="The name of the API key, as in server.api_keys_file.")]
