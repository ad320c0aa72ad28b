"""`reame config show | check | init`."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

from attrs import asdict
from cyclopts import App, Parameter

from reame.config_keys import load_api_keys
from reame.config_load import LOCAL_FILE, load_config
from reame.config_rules import printable
from reame.config_template import load_template
from reame.config_text import default_text, effective_text
from reame.errors import ConfigError
from reame.host.new_file import put

Sets = Annotated[list[str] | None, Parameter("--set", negative="", show_default=False)]
File = Annotated[Path | None, Parameter(name=["--config", "-c"])]
Switch = Parameter(negative="", show_default=False)


def register(app: App) -> None:
    """Add `config` and its commands to the command line."""
    config = App(name="config", help="Show, check or write the configuration file.")
    for command in (show, check, init):
        config.command(command)
    app.command(config)


def show(
    config: File = None,
    *,
    set_: Sets = None,
    as_json: Annotated[bool, Switch, Parameter("--json")] = False,
) -> int:
    """Print the configuration in force, and where each value that is not a default comes from.

    Parameters
    ----------
    config
        The file to read; else $REAME_CONFIG, etc/reame.toml, /etc/reame/reame.toml, or the defaults.
    set_
        A single setting, such as --set server.port=9000. May be repeated; wins over the file.
    as_json
        Print one JSON object with source, config and origins.
    """
    loaded = load_config(config, sets=set_ or ())
    if as_json:
        values = {"source": loaded.source, "config": asdict(loaded.config), "origins": dict(loaded.origins)}
        print(json.dumps(values, indent=2))
    else:
        print(effective_text(loaded), end="")
    return 0


def check(config: File = None, *, set_: Sets = None) -> int:
    """Check the configuration, and the API keys and the chat template that it names: every mistake and exit code 1, or
    "ok".

    Parameters
    ----------
    config
        The file to check; else the one that `reame serve` would read.
    set_
        A single setting, such as --set server.port=9000. May be repeated; wins over the file.
    """
    try:
        loaded = load_config(config, sets=set_ or ())
    except ConfigError as error:
        print(f"reame: {error}", file=sys.stderr)
        return 1
    keys, template = loaded.config.server.api_keys_file, loaded.config.model.chat_template
    comes_later = Path(keys).is_relative_to("/run") and not Path(keys).exists()
    is_right = True
    for path, load in (("" if comes_later else keys, load_api_keys), (template, load_template)):
        try:
            if path:
                load(path)
        except ConfigError as error:
            print(f"reame: {error}", file=sys.stderr)
            is_right = False
    if not is_right:
        return 1
    print(f"ok: {loaded.source}" + (f"; {keys} is made when the service starts" if comes_later else ""))
    return 0


def init(file: Path = LOCAL_FILE, /, *, force: Annotated[bool, Switch] = False) -> int:
    """Write a configuration file with every key, its default and the reason for it.

    Parameters
    ----------
    file
        Where to write it.
    force
        Replace a file that exists.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        _write(file, default_text(), force=force)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise ConfigError(f"{printable(file)}: cannot be written: {reason.lower()}") from None
    print(f"wrote {printable(file)}")
    return 0


def _write(file: Path, text: str, *, force: bool) -> None:
    """All of the text or nothing: a reader never sees half a file, and only `force` replaces one."""
    target = file.resolve()  # a link stays a link, to the new file
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        if force:
            os.replace(part, target)
        else:
            put(part, target)
    except FileExistsError:
        raise ConfigError(f"{printable(file)}: exists already; --force replaces it") from None
    finally:
        part.unlink(missing_ok=True)
