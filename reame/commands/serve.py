"""`reame serve`: the daemon, from its TOML."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import cyclopts

from reame.config import Config
from reame.config_load import load_config


async def serve(
    *,
    config: Annotated[Path | None, cyclopts.Parameter(name=["--config", "-c"])] = None,
    sets: Annotated[tuple[str, ...], cyclopts.Parameter(name="--set", negative="", show_default=False)] = (),
) -> int:
    """Serve one model to OpenAI clients, as the config says. Another model: --set model.path=NAME.

    Ready when `/health` answers 200. SIGTERM or Ctrl-C: running requests may finish for server.grace_s seconds; a
    second one stops at once. SIGHUP: the API keys and log.level are read again, and nobody is disturbed. Sockets that
    systemd hands over are listened on instead of server.host and server.port.

    Parameters
    ----------
    config
        The TOML file. Without it: $REAME_CONFIG, etc/reame.toml, /etc/reame/reame.toml, or the defaults.
    sets
        A single setting, such as --set server.port=9000. May be repeated; wins over the file.
    """
    loaded = load_config(config, sets=sets)
    return await serve_config(loaded.config, read=lambda: load_config(config, sets=sets).config)


async def serve_config(config: Config, *, read: Callable[[], Config] | None = None) -> int:
    """Run the daemon until a signal ends it. Returns the exit status; raises ReameError (perhaps in a group).

    `read` reads the config again, for SIGHUP; without it SIGHUP is not caught. What all this takes is imported here,
    which costs half a second: `--help` shall not.
    """
    from reame.api.app import create_app
    from reame.api.listen import inherited
    from reame.api.server import serve as serve_http
    from reame.catalog import resolve
    from reame.config_keys import load_api_keys
    from reame.config_template import load_template
    from reame.runtime import logs
    from reame.runtime.batch_front import with_batches
    from reame.runtime.daemon import Daemon
    from reame.runtime.intake import Intake
    from reame.runtime.metrics import Metrics
    from reame.runtime.notify import Supervisor
    from reame.runtime.reload import Reload

    logs.configure(config.log.level, config.log.format)
    os.umask(0o077)  # what is kept of people's texts is for nobody else on this machine
    keys = load_api_keys(config.server.api_keys_file) if config.server.api_keys_file else ()
    sockets = inherited(os.environ, has_keys=bool(keys))
    path = resolve(config.model.path)
    if config.model.chat_template:
        load_template(config.model.chat_template)  # now, and not only when the model has been loaded
    metrics = Metrics()
    intake = Intake(config, config.model.id or path.stem, metrics)
    app = create_app(config, intake, metrics, keys)
    front = with_batches(partial(serve_http, app, config, sockets=sockets), app.batches)
    reload = Reload(config, read, app.keyring.replace) if read else None
    await Daemon(config, path, intake, metrics, front, reload=reload, supervisor=Supervisor()).run()
    return 0


def register(app: cyclopts.App) -> None:
    app.command(serve)
