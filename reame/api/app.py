"""The application, assembled: keys, CORS, endpoints, errors."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio
from attrs import asdict, fields_dict
from quart import g, request
from quart_trio import QuartTrio
from werkzeug.exceptions import HTTPException

from reame.api.auth import Keyring, bearer
from reame.api.batch_local import LocalSolver
from reame.api.batches import BatchRoutes
from reame.api.cors import allow_origins
from reame.api.editors import Editors
from reame.api.embeddings import EmbeddingRoutes
from reame.api.errors import error_headers, from_status
from reame.api.exchange import Exchange, Request
from reame.api.files import Files
from reame.api.guards import RequestRate
from reame.api.hosts import refuse_foreign_names
from reame.api.protocols import Protocols, error_body
from reame.api.routes import Routes, json_response
from reame.batch.shelf import Shelf
from reame.core.request import Sampling
from reame.errors import RequestError
from reame.runtime.batches import Batches, batches_dir

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quart_trio.wrappers import TrioResponse as Response

    from reame.config import Config, SamplingConfig
    from reame.config_keys import ApiKey
    from reame.runtime.intake import Intake
    from reame.runtime.metrics import Metrics

OPEN = ("/health", "/openapi.json", "/docs")
"""Paths that everybody may ask: they tell nothing about anybody."""
_log = logging.getLogger(__name__)


class Application(QuartTrio):
    """Quart-Trio with our connection class."""

    asgi_http_class = Exchange
    request_class = Request
    keyring: Keyring
    batches: Batches
    """To be run beside the application."""


def create_app(config: Config, intake: Intake, metrics: Metrics, keys: Sequence[ApiKey]) -> Application:
    """The ASGI application. With no `keys` everyone may call."""
    app = Application(__name__, static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = config.server.max_body_mb << 20
    app.config["MAX_UPLOAD_LENGTH"] = (config.batch.file_mb + 1) << 20  # the form around the file is small
    app.config["BODY_TIMEOUT"] = config.server.body_timeout_s
    app.config["RESPONSE_TIMEOUT"] = None  # an answer may take long; writes have a time limit of their own
    allow_origins(app, config.server.cors_origins)
    app.keyring = Keyring(keys)
    intake.room.has_several_keys = lambda: len(app.keyring) > 1
    refuse_foreign_names(app, app.keyring, config.server)
    _ask_for_keys(app, app.keyring, RequestRate(config.server.requests_per_minute))
    intake.tokens.limit = config.server.tokens_per_day
    parsing, counting = trio.CapacityLimiter(1), trio.CapacityLimiter(1)
    routes = Routes(config, intake, metrics, _sampling(config.sampling), parsing, counting)
    routes.add_to(app)
    Editors(routes).add_to(app)
    Protocols(routes).add_to(app)
    EmbeddingRoutes(routes).add_to(app)
    app.batches = _batches(config, intake, routes.sampling)
    Files(config, app.batches).add_to(app)
    BatchRoutes(app.batches, config.server.cors_origins).add_to(app)
    _answer_errors(app)
    return app


def _batches(config: Config, intake: Intake, sampling: Sampling) -> Batches:
    shelf = Shelf(batches_dir(config), room=config.batch.room_mb << 20, keep_s=config.batch.keep_days * 86_400)
    return Batches(shelf, lambda key: LocalSolver(config, intake, sampling, key), intake.model_id)


def _sampling(defaults: SamplingConfig) -> Sampling:
    known = fields_dict(Sampling)
    return Sampling(**{name: value for name, value in asdict(defaults).items() if name in known})


def _ask_for_keys(app: Application, keys: Keyring, rate: RequestRate) -> None:
    async def check() -> None:
        open_to_all = request.path in OPEN or request.method == "OPTIONS"
        g.key = "" if open_to_all else keys.name_of(bearer(request.headers))
        if request.method == "POST":
            rate.take(g.key)

    app.before_request(check)


def _answer_errors(app: Application) -> None:
    async def refuse(error: RequestError) -> Response:
        return json_response(error_body(error, request.path), status=error.status, headers=error_headers(error))

    async def explain(error: HTTPException) -> Response:
        response = await refuse(from_status(error.code or 500))
        allowed = getattr(error, "valid_methods", None)
        if allowed:
            response.headers["Allow"] = ", ".join(sorted(allowed))
        return response

    async def confess(error: Exception) -> Response:
        _log.error("%s %s failed", request.method, request.endpoint, exc_info=error)
        return await refuse(from_status(500))

    app.register_error_handler(RequestError, refuse)
    app.register_error_handler(HTTPException, explain)
    app.register_error_handler(Exception, confess)
