"""Names of models: what a person may type, and which file on this machine it means.

A model is named by a path, by a short name of the catalogue, by the name of a file in the models directory (without
`.gguf`), by `hf:owner/repository/file.gguf`, or by an unambiguous beginning of a name. Nothing here uses the network.
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

from attrs import frozen

from reame.catalog_entries import CATALOG
from reame.catalog_origin import origin
from reame.catalog_types import Entry, HubFile, WheelFile
from reame.config_service import is_service, service_hint, show_it
from reame.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = [
    "CATALOG",
    "DEFAULT_MODEL",
    "Entry",
    "HubFile",
    "Named",
    "WheelFile",
    "check_gguf",
    "entry",
    "identify",
    "installed",
    "models_dir",
    "parse_hub",
    "resolve",
    "split_parts",
]

DEFAULT_MODEL = CATALOG[0].name

AnyPath = TypeVar("AnyPath", bound=PurePath)

_SPLIT = re.compile(r"(?P<stem>.+)-(?P<part>\d{5})-of-(?P<parts>\d{5})\.gguf")
_HUB = re.compile(r"hf:(?P<repo>[\w.-]+/[\w.-]+)/(?P<file>(?:[\w.+-]+/)*[\w.+-]+\.gguf)", re.ASCII)


@frozen
class Named:
    """What a name means: the file it is or would be on this machine, and where it can come from (None: only here)."""

    name: str
    path: Path
    source: HubFile | WheelFile | None


def models_dir(environ: Mapping[str, str] | None = None) -> Path:
    """`$REAME_MODELS`, else `models` in `$STATE_DIRECTORY` (systemd's), else `~/.reame/models`. It need not exist.
    ModelError when there is no home directory.
    """
    environ = os.environ if environ is None else environ
    if chosen := environ.get("REAME_MODELS"):
        return Path(chosen).absolute()
    if state := environ.get("STATE_DIRECTORY"):
        return Path(state) / "models"
    home = environ.get("HOME") or os.path.expanduser("~")
    if not os.path.isabs(home):
        raise ModelError("there is no home directory to keep models in: set REAME_MODELS to a directory")
    return Path(home) / ".reame" / "models"


def entry(name: str) -> Entry | None:
    """The catalogue's entry with exactly this short name."""
    return next((known for known in CATALOG if known.name == name), None)


def split_parts(path: AnyPath) -> list[AnyPath]:
    """All files of the model that starts at `path`: itself, or every `...-0000k-of-0000n.gguf` when it is split."""
    match = _SPLIT.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["parts"])
    return [path.with_name(f"{match['stem']}-{part:05}-of-{count:05}.gguf") for part in range(1, count + 1)]


def installed(directory: Path) -> dict[str, Path]:
    """Name -> first file of every model in the models directory, sorted; empty when there is no such directory."""
    found = {}
    for path in sorted(directory.glob("[!.]*.gguf")):
        match = _SPLIT.fullmatch(path.name)
        if match is None:
            found[path.stem] = path
        elif int(match["part"]) == 1:
            found[match["stem"]] = path
    return found


def parse_hub(spec: str) -> HubFile:
    """`hf:owner/repository/[folder/]file.gguf`, of a split model the first. ModelError when it is anything else."""
    match = _HUB.fullmatch(spec)
    if match is None or ".." in spec.split("/"):
        raise ModelError(f"{spec!r} is not of the form hf:owner/repository/file.gguf")
    return HubFile(match["repo"], str(split_parts(PurePosixPath(match["file"]))[0]))


def identify(spec: str, directory: Path) -> Named:
    """What `spec` means, whether the file is here or not. ModelError when it means nothing, or more than one thing."""
    if "\0" in spec:
        raise ModelError(f"{spec!r} cannot be the name of a model or a file")
    if spec.startswith("hf:"):
        source = parse_hub(spec)
        path = directory / _local_name(source)
        _refuse_another(path, source)
        return Named(_stem(path), path, source)
    if spec.endswith(".gguf") or os.sep in spec:
        path = Path(os.path.expanduser(spec))
        inside = directory / spec
        return Named(_stem(path), inside if not os.path.exists(path) and os.path.exists(inside) else path, None)
    here = installed(directory)
    name = _complete(spec, here)
    known = entry(name)
    if known is None:
        return Named(name, here[name], None)
    return Named(name, here.get(name, directory / f"{name}.gguf"), known.source)


def resolve(spec: str, directory: Path | None = None) -> Path:
    """The GGUF file that `spec` means (of a split model the first), checked to be one. ModelError says what to do."""
    directory = models_dir() if directory is None else directory
    named = identify(spec, directory)
    if named.source is not None and not os.path.exists(named.path):
        where = "is in the catalogue but not in" if entry(named.name) else "is not in"
        sudo = f"sudo REAME_MODELS={directory} " if is_service() else ""
        raise ModelError(f"{named.name} {where} {directory}: run `{sudo}reame pull {spec}`")
    check_gguf(named.path)
    return named.path


def check_gguf(path: Path) -> None:
    """ModelError unless `path` is a readable GGUF file and, when it is the first of a split model, complete."""
    match = _SPLIT.fullmatch(path.name)
    if match is not None and int(match["part"]) != 1:
        raise ModelError(f"{path} is a later part of a split model: give the first, {split_parts(path)[0]}")
    for part in split_parts(path):
        try:
            with part.open("rb") as file:
                magic = file.read(4)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            why = getattr(error, "strerror", None) or error
            hint = _hub_hint(part) or service_hint(show_it(part))
            raise ModelError(f"cannot read the model {str(part)!r}: {why}{hint}") from None
        if magic != b"GGUF":
            raise ModelError(f"{str(part)!r} is not a GGUF file: give one, or a name that `reame list` shows")


def _complete(spec: str, here: Iterable[str]) -> str:
    """The one catalogue or installed name that equals `spec` or else begins with it, in any case of letters."""
    names = dict.fromkeys([*(known.name for known in CATALOG), *here])
    if spec in names:
        return spec
    folded = spec.casefold()
    same = [name for name in names if name.casefold() == folded]
    matches = same or [name for name in names if spec and name.casefold().startswith(folded)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ModelError(f"{spec!r} could be {', '.join(matches)}: give more of the name")
    close = difflib.get_close_matches(folded, names, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else "`reame list` shows the names, a path ends in .gguf"
    raise ModelError(f"no model is called {spec!r}: {hint}")


def _hub_hint(path: Path) -> str:
    """For a missing relative path of the form owner/repository[/file], which people copy from the hub's pages."""
    text = path.as_posix()
    looks_like_hub = re.fullmatch(r"[\w.-]+(/[\w.+-]+)+", text, re.ASCII) and not os.path.exists(path.parent)
    return f" (a file of Hugging Face is written hf:{text})" if looks_like_hub else ""


def _local_name(source: HubFile) -> str:
    """File name here for a file of the hub: its own, with the repository before it when it does not name the model.

    Many repositories call their file `model.gguf`; without this, one would be taken for the other.
    """
    base = source.file.rsplit("/", 1)[-1]
    repository = source.repo.rsplit("/", 1)[-1]
    model = re.sub(r"[-_.]gguf$", "", repository, flags=re.IGNORECASE)
    return base if model.casefold() in base.casefold() else f"{model}-{base}"


def _refuse_another(path: Path, source: HubFile) -> None:
    """ModelError when the file of this name is known to be another repository's."""
    there = origin(path)
    if there is not None and there.casefold() != str(source).casefold():
        raise ModelError(
            f"{path} is {there}, not {source}: give it another name, or delete it with `reame rm {_stem(path)}`"
        )


def _stem(path: Path) -> str:
    match = _SPLIT.fullmatch(path.name)
    return match["stem"] if match else path.stem
