"""Which web pages may call from a browser. None unless `server.cors_origins` names them.

A preflight needs no key, as browsers send none with it. Pages that are not named get no CORS header at all, on nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quart import request
from quart_trio.wrappers import TrioResponse as Response

from reame.errors import RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from quart_trio import QuartTrio

PREFLIGHT_AGE_S = 600


def refuse_foreign_page(origins: Sequence[str]) -> None:
    """For what takes a form, or nothing: that any web page can send without asking first, other than JSON. Raises
    RequestError (403) for a page that is not one of `origins`."""
    origin = request.headers.get("Origin")
    if origin and origin not in origins and "*" not in origins:
        raise RequestError("web pages may do this only from server.cors_origins", status=403, code="foreign_origin")


def allow_origins(app: QuartTrio, origins: Sequence[str]) -> None:
    """Answer preflights and mark responses for `origins`; "*" means every page."""
    allowed = frozenset(origins)

    def granted() -> str | None:
        origin = request.headers.get("Origin")
        return origin if origin and (origin in allowed or "*" in allowed) else None

    async def preflight() -> Response | None:
        asked = request.headers.get("Access-Control-Request-Method")
        if request.method != "OPTIONS" or not asked or not granted():
            return None
        headers = {
            "Access-Control-Allow-Methods": "GET, POST, DELETE, OPTIONS",
            "Access-Control-Max-Age": str(PREFLIGHT_AGE_S),
        }
        wanted = request.headers.get("Access-Control-Request-Headers")
        if wanted:
            headers["Access-Control-Allow-Headers"] = wanted
        if "Access-Control-Request-Private-Network" in request.headers:
            headers["Access-Control-Allow-Private-Network"] = "true"
        return Response(status=204, headers=headers)

    async def mark(response: Response) -> Response:
        origin = granted()
        response.headers.add("Vary", "Origin")
        if origin is not None:
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Access-Control-Expose-Headers"] = "Retry-After, X-Request-Id"
        return response

    if allowed:
        app.before_request(preflight)
        app.after_request(mark)
