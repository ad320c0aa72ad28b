"""A Hugging Face hub, or a mirror that speaks its protocol: where it is, what it says of a file, how it refuses.

The hub answers `GET /{repo}/resolve/main/{file}` with a redirect to signed storage, and on that redirect names the
file: `X-Linked-ETag` is its SHA-256 and `X-Linked-Size` its size (as huggingface_hub's `get_hf_file_metadata` reads
them). The storage's own ETag is only good for `If-Range`: for Xet storage it has the form of a SHA-256 and is another
hash. So redirects are followed here by hand, with the token sent to the hub's own origin alone. An endpoint
may redirect to another hub (`www.`, https, the original of a mirror): who is asked under the same path is one too.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import httpx2
from attrs import frozen

from reame.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from reame.catalog_types import HubFile

DEFAULT_ENDPOINT = "https://huggingface.co"
MAX_HOPS = 8  # redirects
TIMEOUT = httpx2.Timeout(30.0, connect=15.0)  # seconds without a byte

_SHA256 = re.compile(r"[0-9a-f]{64}")


@frozen
class Answer:
    """The response at the end of the redirects, and what the hub said of the file on the way."""

    response: httpx2.Response
    url: httpx2.URL
    sha256: str | None
    size: int | None


@frozen
class Hub:
    """Where the files are, and the token to show there (never in its repr)."""

    endpoint: httpx2.URL
    token: str

    def __repr__(self) -> str:
        return f"Hub({self.endpoint.host})"

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Hub:
        """`HF_ENDPOINT` and `HF_TOKEN`. ModelError when one of them cannot be what it says; shows no secret."""
        environ = os.environ if environ is None else environ
        given = environ.get("HF_ENDPOINT") or DEFAULT_ENDPOINT
        try:
            endpoint = httpx2.URL(given.rstrip("/"))
        except httpx2.InvalidURL:
            endpoint = httpx2.URL("")
        if endpoint.scheme not in ("http", "https") or not endpoint.host:
            raise ModelError("HF_ENDPOINT is not a URL such as https://huggingface.co: correct or unset it")
        token = environ.get("HF_TOKEN", "").strip()
        if not re.fullmatch(r"[!-~]*", token):
            raise ModelError("HF_TOKEN holds a space or another character that no token has: correct or unset it")
        return cls(endpoint, token)

    def url(self, source: HubFile) -> httpx2.URL:
        return httpx2.URL(f"{self.endpoint}/{source.repo}/resolve/main/{source.file}")

    def owns(self, url: httpx2.URL) -> bool:
        return url.origin == self.endpoint.origin

    def speaks(self, url: httpx2.URL, source: HubFile) -> bool:
        """Whether an answer from there is a hub's, and not the storage's. A redirect may rename the repository."""
        return self.owns(url) or url.path.endswith(f"/resolve/main/{source.file}")

    def headers(self, url: httpx2.URL) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token and self.owns(url) else {}

    async def open(self, client: httpx2.AsyncClient, source: HubFile, headers: Mapping[str, str]) -> Answer:
        """Ask for the file and follow the redirects. The caller closes the answer's response."""
        url, sha256, size = self.url(source), None, None
        for _ in range(MAX_HOPS):
            request = client.build_request("GET", url, headers={**headers, **self.headers(url)})
            response = await client.send(request, stream=True)
            if self.owns(url) or (self.speaks(url, source) and sha256 is None):
                linked = response.headers.get("x-linked-etag", "").strip('"').lower()
                sha256 = linked if _SHA256.fullmatch(linked) else sha256
                size = number(response.headers.get("x-linked-size")) or size
            if not response.has_redirect_location:
                return Answer(response, url, sha256, size)
            await response.aclose()
            url = _redirected(url, response.headers["location"])
        raise ModelError(f"{self.endpoint.host} redirects without end: check HF_ENDPOINT and the network's log-in")


def client() -> httpx2.AsyncClient:
    """A client that follows no redirect and asks for no compression. ModelError when the environment spoils it."""
    try:
        return httpx2.AsyncClient(timeout=TIMEOUT, headers={"Accept-Encoding": "identity", "User-Agent": "reame"})
    except (ValueError, ImportError, OSError):  # the text of these may hold a proxy's password
        raise ModelError(
            "the proxy or certificate settings cannot be used: check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
        ) from None


def _redirected(url: httpx2.URL, location: str) -> httpx2.URL:
    try:
        target = url.join(location)
    except httpx2.InvalidURL:
        target = httpx2.URL("")
    if target.scheme not in ("http", "https") or (url.scheme == "https" and target.scheme == "http"):
        raise ModelError(f"{url.host} redirects to something that is not https: not followed; check the network")
    return target


def number(text: str | None) -> int | None:
    """A header's value as a non-negative number, or None."""
    return int(text) if text and text.isascii() and text.isdigit() else None


def refusal(answer: Answer, source: HubFile, hub: Hub) -> ModelError:
    """What to tell a person when the hub itself, or one that it redirects to, answered with this status."""
    status, code = answer.response.status_code, answer.response.headers.get("x-error-code", "")
    where = f"{source.repo} on {answer.url.host}"
    if status == 404:
        file = "" if code == "RepoNotFound" else f" file {source.file} in"
        return ModelError(f"there is no{file} {where}: check the spelling (`reame list` shows the catalogue)")
    if status not in (401, 403):
        return ModelError(f"{answer.url.host} answered {status} for {source}: try later, or set HF_ENDPOINT")
    if hub.token and not hub.owns(answer.url):
        return ModelError(
            f"{where} wants a token, and HF_TOKEN is not shown to whom {hub.endpoint.host} redirects to: "
            f"if you trust it, set HF_ENDPOINT to {answer.url.scheme}://{answer.url.netloc.decode()}"
        )
    if code == "GatedRepo" and not hub.token:
        need = "accept its licence on its page, set HF_TOKEN to a token of that account, and run the command again"
        return ModelError(f"{where} is gated: {need}")
    if code == "GatedRepo":
        return ModelError(
            f"{where} is gated and the account of HF_TOKEN may not read it: accept its licence on its page"
        )
    if hub.token:
        return ModelError(f"{where} refuses HF_TOKEN: check the token, and that the name is right")
    return ModelError(f"{where} does not exist or is not public: check the spelling, or set HF_TOKEN to your token")
