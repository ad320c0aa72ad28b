"""A side that runs already, somewhere: any server that speaks OpenAI's API, at a URL."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import httpx2
from attrs import evolve, frozen

from bench.client import Address
from bench.errors import BenchError
from bench.sides import Side

KEY = "OPENAI_API_KEY"
LONGEST_S = 20.0


@frozen
class Remote:
    """Nobody here can start, stop or rest it: it stays a neighbour while the other side runs, and keeps what it has."""

    side: Side
    address: Address

    @property
    def port(self) -> int:
        return self.address.port

    @property
    def cpu_s(self) -> float | None:
        return None

    def restart(self) -> None:
        raise BenchError(f"{self.side.label} cannot be restarted from here")

    def resume(self) -> None:
        pass

    def settle(self) -> None:
        pass

    def rest(self) -> None:
        pass


def reach(url: str, *, model: str = "") -> Remote:
    """The server at `url`, with or without its `/v1`. `model`: what it calls the model; else the first that it lists.

    A key is taken from the environment (`OPENAI_API_KEY`). Raises BenchError when it does not answer.
    """
    address = address_of(url, key=os.environ.get(KEY, ""))
    try:
        headers = address.authorization
        reply = httpx2.get(f"{address.url}/v1/models", headers=headers, timeout=LONGEST_S, trust_env=False)
        if reply.status_code != 200:
            raise BenchError(f"{url} answers /v1/models with status {reply.status_code}: {reply.text[:200]}")
        names = [str(entry["id"]) for entry in reply.json()["data"]]
    except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{url} does not list its models as OpenAI's API does: {error}") from error
    if model and model not in names:
        raise BenchError(f"{url} has no model {model}: it has {', '.join(names) or 'none'}")
    if not names:
        raise BenchError(f"{url} has no model")
    named = evolve(address, model=model or names[0])
    return Remote(Side(f"{named.model.rpartition('/')[2]} at {named.host}", "url"), named)


def address_of(url: str, *, key: str = "") -> Address:
    """From what a person types. Raises BenchError for anything but http(s)://host[:port][/base][/v1]."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BenchError(f"{url} is no URL: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise BenchError(f"--peer takes llama-server, or a URL such as http://127.0.0.1:8080, not {url}")
    tls = parts.scheme == "https"
    return Address(
        host=parts.hostname,
        port=port or (443 if tls else 80),
        base=parts.path.rstrip("/").removesuffix("/v1"),
        tls=tls,
        key=key,
        is_plain=True,
    )
