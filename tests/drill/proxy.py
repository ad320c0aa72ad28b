"""The proxy configurations of docs/proxy, in front of a real daemon: nginx and Caddy, with TLS.

Streams come piece by piece and outlive a read timeout while they wait; large bodies pass; a client that leaves ends its
request. Needs nginx and caddy (on Debian: apt install nginx-light caddy) and openssl.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import _drill
import trio
from attrs import define
from daemon_process import PATIENCE_S, free_port
from httpx2 import AsyncClient, ConnectError, ReadError, RemoteProtocolError, WriteError
from talking import COMPLETIONS, ENDLESS, answer, ask, connect, until, until_busy, until_idle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from daemon_process import DaemonProcess

SNIPPETS = Path(__file__).resolve().parents[2] / "docs" / "proxy"
READ_TIMEOUT_S = 3
"""A proxy far more impatient than any: streams must outlive it."""
STORY = ask("Once upon a time", 300, logit_bias=ENDLESS)


@define
class Drill:
    """One proxy in front of one daemon."""

    name: str
    daemon: DaemonProcess
    direct: AsyncClient
    outside: AsyncClient
    faults: list[str]

    def check(self, holds: bool, what: str) -> None:
        print(f"{self.name}: {'ok   ' if holds else 'FAULT'} {what}")
        if not holds:
            self.faults.append(f"{self.name}: {what}")

    async def run(self) -> None:
        await self.pieces()
        await self.patience()
        await self.bodies()
        await self.leaving()

    @asynccontextmanager
    async def stream(self, body: dict[str, Any]) -> AsyncIterator[AsyncIterator[str]]:
        async with self.outside.stream("POST", COMPLETIONS, json=body | {"stream": True}) as response:
            assert response.status_code == 200
            yield response.aiter_lines()

    async def pieces(self) -> None:
        """The first piece is here while the daemon still writes the last."""
        async with self.stream(STORY) as lines:
            async for line in lines:
                if line.startswith("data: ") and json.loads(line[6:])["choices"][0].get("text"):
                    break
            await until_busy(self.direct, running=1)
            self.check(True, "a piece came while the answer was being made")
            rest = [line async for line in lines]
        self.check("data: [DONE]" in rest and len(rest) > 300, "the stream came to its end")

    async def patience(self) -> None:
        """A stream waits for its slot, longer than the proxy is willing to hear nothing."""
        comments: list[str] = []
        ends: list[bool] = []

        async def wait() -> None:
            async with self.stream(ask("Two", 3, logit_bias=ENDLESS)) as lines:
                said = [line async for line in lines]
            comments.extend(line for line in said if line.startswith(":"))
            ends.append("data: [DONE]" in said)

        async with trio.open_nursery() as nursery, self.stream(STORY | {"max_tokens": 3000}) as first:
            await anext(first)
            nursery.start_soon(wait)
            await until_busy(self.direct, running=1, waiting=1)
            started = trio.current_time()
            while trio.current_time() < started + 2 * READ_TIMEOUT_S:
                await anext(first)
        lived = ends == [True] and len(comments) > READ_TIMEOUT_S
        self.check(lived, f"a waiting stream lived on {len(comments)} comments")

    async def bodies(self) -> None:
        response = await self.outside.post(COMPLETIONS, json=ask("x", 1) | {"metadata": {"long": "y" * (10 << 20)}})
        self.check(response.status_code == 200, f"a body of 10 MB: {response.status_code}")
        too_large = ask("x", 1) | {"metadata": {"long": "y" * (17 << 20)}}
        try:
            response = await self.outside.post(COMPLETIONS, json=too_large)
        except (ReadError, WriteError):  # some proxies hang up on who still sends; some clients then look no further
            self.check(True, "a body of 17 MB: hung up on")
        else:
            told = response.status_code == 413 and response.json()["error"]["code"] == "request_too_large"
            self.check(told, f"a body of 17 MB: {response.status_code}, in the API's words")

    async def leaving(self) -> None:
        before = (await until_idle(self.direct)).outcomes().get("cancelled", 0)
        async with self.stream(STORY | {"max_tokens": 3000}) as lines:
            await anext(lines)
        seen = await until(self.direct, lambda seen: seen.outcomes().get("cancelled", 0) > before)
        self.check(True, "who leaves ends his request")
        assert not seen["waiting_sequences"]


def certificate(folder: Path) -> None:
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key.pem -out cert.pem"
    subprocess.run(words.split(), cwd=folder, check=True, capture_output=True)


@contextmanager
def nginx(folder: Path, upstream: int, port: int) -> Iterator[None]:
    certificate(folder)
    site = (SNIPPETS / "nginx.conf").read_text()
    for pattern, new in (
        (r"listen 80;", f"listen 127.0.0.1:{free_port()};"),
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        (r"/etc/letsencrypt/\S+/fullchain.pem", f"{folder}/cert.pem"),
        (r"/etc/letsencrypt/\S+/privkey.pem", f"{folder}/key.pem"),
        (r"127\.0\.0\.1:8080", f"127.0.0.1:{upstream}"),
        (r"proxy_read_timeout \w+;", f"proxy_read_timeout {READ_TIMEOUT_S}s;"),
    ):
        site, count = re.subn(pattern, new, site)
        assert count == 1, pattern
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
    config, user = folder / "nginx.conf", "user root; " if os.geteuid() == 0 else ""
    config.write_text(
        f"{user}daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}}\n"
        f"http {{ access_log off; {temporary}\n{site}\n}}\n"
    )
    with running(["nginx", "-c", str(config), "-p", str(folder), "-e", f"{folder}/early.log"], folder):
        yield


@contextmanager
def caddy(folder: Path, upstream: int, port: int) -> Iterator[None]:
    site = (SNIPPETS / "Caddyfile").read_text()
    for old, new in (
        ("llm.example.org {", f"https://localhost:{port} {{\n\ttls internal\n\tbind 127.0.0.1"),
        ("127.0.0.1:8080", f"127.0.0.1:{upstream}"),
    ):
        assert site.count(old) == 1, old
        site = site.replace(old, new)
    options = ("admin off", "skip_install_trust", "auto_https disable_redirects", f"storage file_system {folder}/data")
    (folder / "Caddyfile").write_text("{{\n\t{}\n}}\n{}".format("\n\t".join(options), site))
    with running(["caddy", "run", "--adapter", "caddyfile", "--config", f"{folder}/Caddyfile"], folder):
        yield


@contextmanager
def running(words: list[str], folder: Path) -> Iterator[None]:
    environ = os.environ | {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
    with (folder / "proxy.log").open("wb") as log:
        process = subprocess.Popen(words, cwd=folder, env=environ, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)
            if process.returncode:
                print((folder / "proxy.log").read_text()[-2000:])


async def until_open(client: AsyncClient) -> None:
    with trio.fail_after(PATIENCE_S):
        while True:
            try:
                await client.get("/health")
            except (ConnectError, ReadError, RemoteProtocolError):
                await trio.sleep(0.05)
            else:
                return


async def drill(name: str, start: Callable[[Path, int, int], Any], faults: list[str]) -> None:
    tables: dict[str, dict[str, object]] = {
        "engine": {"slots": 1, "context": 4096},
        "server": {"keep_alive_s": READ_TIMEOUT_S / 3},
        "memory": {"enabled": False},
    }
    with _drill.serving(**tables) as daemon, _drill.scratch() as folder:
        port = free_port()
        with start(folder, daemon.port, port):
            url = f"https://localhost:{port}"
            outside = AsyncClient(base_url=url, verify=False, timeout=PATIENCE_S, trust_env=False)
            async with connect(daemon) as direct, outside:
                await until_open(outside)
                assert (await answer(direct, COMPLETIONS, ask("Hello", 1)))["choices"]
                await Drill(name, daemon, direct, outside, faults).run()


def main() -> int:
    _drill.arguments(__doc__)
    missing = [tool for tool in ("nginx", "caddy", "openssl") if shutil.which(tool) is None]
    if missing:
        print(f"this drill needs {', '.join(missing)} (on Debian: apt install nginx-light caddy openssl)")
        return 1
    faults: list[str] = []
    for name, start in (("nginx", nginx), ("caddy", caddy)):
        trio.run(partial(drill, name, start, faults))
    return _drill.verdict(faults)


if __name__ == "__main__":
    sys.exit(main())
