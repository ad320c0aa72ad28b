"""By which names a browser may call a server without keys.

A web page can have its own domain name resolve to 127.0.0.1 (DNS rebinding): to the browser this server is then the
page's own, and CORS asks nobody. What such a page cannot change is the name that it calls the server by. An address in
place of a name is never refused, as no name was resolved; nor is a program, which may say what it likes anyway.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from quart import request

from reame.errors import RequestError

if TYPE_CHECKING:
    from quart_trio import QuartTrio
    from werkzeug.datastructures import Headers

    from reame.api.auth import Keyring
    from reame.config import ServerConfig

SIGNS = ("Origin", "Referer", "Accept-Language", "Sec-Fetch-Mode", "Sec-Fetch-Site")
LONGEST = 80
"""Characters of a name that a message repeats."""


def refuse_foreign_names(app: QuartTrio, keys: Keyring, server: ServerConfig) -> None:
    """While no key is asked for, a browser that calls by a name neither this machine's nor in the config gets 403."""
    pages = (urlsplit(origin).hostname or "" for origin in server.cors_origins)
    known = {name.lower() for name in (server.host, *server.names, *pages)}

    async def check() -> None:
        if keys.is_open and "*" not in known and may_be_browser(request.headers):
            name = host_name(request.headers.get("Host", ""))
            if not is_own(name) and name not in known:
                raise RequestError(
                    "This server asks for no key, so it answers only to the names of this machine, and not to "
                    f'"{name[:LONGEST]}": add that to server.names if it is yours, or set server.api_keys_file.',
                    status=403,
                    code="foreign_host",
                )

    app.before_request(check)


def host_name(header: str) -> str:
    """A Host header without its port, in lower case."""
    if header.startswith("["):
        return header[1:].partition("]")[0].lower()
    return header.partition(":")[0].rstrip(".").lower()


def is_own(name: str) -> bool:
    """Whether every machine calls itself so, or nobody needed to resolve it. None at all is HTTP/1.0."""
    try:
        ip_address(name)
    except ValueError:
        return name in ("", "localhost") or name.endswith(".localhost")
    return True


def may_be_browser(headers: Headers) -> bool:
    """Whether a page may be behind it: it cannot keep its browser from sending one of these, or from being Mozilla.

    Node's `fetch` sends two of them, as no page can: `Sec-` is the browser's alone, and comes with `Sec-Fetch-Site`.
    Deno's sends one, with encodings that no browser asks for; a page has no say in these.
    """
    signs = {name for name in SIGNS if name in headers}
    is_node = signs == {"Accept-Language", "Sec-Fetch-Mode"}
    is_deno = signs == {"Accept-Language"} and _encodings(headers) == {"gzip", "br"}
    if (is_node or is_deno) and headers["Accept-Language"] == "*":
        signs = set()
    return bool(signs) or headers.get("User-Agent", "").startswith("Mozilla/")


def _encodings(headers: Headers) -> set[str]:
    return {each.strip() for each in headers.get("Accept-Encoding", "").split(",")}
