"""What `reame warm` does: files to request bodies, one after the other to the daemon, a line for each."""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

import httpx2
import trio
from attrs import evolve, frozen

from reame.commands.warm_progress import shown
from reame.config_rules import printable
from reame.errors import ConfigError, RequestError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reame.commands.warm_progress import Show
    from reame.config import ServerConfig

CONNECT_S = 10.0
SILENCE_S = 3700.0
"""Seconds without a word after which a daemon counts as hanging: above `server.keep_alive_s`, whatever it is."""
MAX_PAUSE_S = 30
LOCAL = ("localhost", "127.0.0.1", "::1")
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses that a server has when it listens on all of the machine's, and where to find it from here."""

Bodies = dict[str, dict[str, Any]]
"""A request for each file, by the name that the person gave it."""


def read_files(files: Sequence[Path], *, is_system: bool, is_messages: bool, pin: bool, ttl: float | None) -> Bodies:
    """All that is wrong with the options and the files is said, as ConfigError, before anything is sent."""
    if is_system and is_messages:
        raise ConfigError("--system and --messages say different things of the files: leave one out")
    if ttl is not None and not pin:
        raise ConfigError("--ttl says how long a pin holds: add --pin")
    if ttl is not None and not 0 < ttl < float("inf"):
        raise ConfigError("--ttl is a number of seconds above 0")
    more: dict[str, Any] = {"stream": True, "pin": pin} | ({} if ttl is None else {"ttl_s": ttl})
    bodies: Bodies = {}
    for file in files:
        text = _text_of(file)
        if is_messages:
            bodies[printable(file)] = _chat_of(file, text) | more
        elif is_system:
            # With a user's turn behind it, templates that know no system role take it too, and more is in common.
            turns = [{"role": "system", "content": text}, {"role": "user", "content": ""}]
            bodies[printable(file)] = {"messages": turns} | more
        else:
            bodies[printable(file)] = {"prompt": text} | more
    return bodies


def _text_of(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise ConfigError(f"{printable(file)}: not UTF-8 text (byte {error.start + 1})") from None
        reason = (error.strerror if isinstance(error, OSError) else None) or "not a path"
        raise ConfigError(f"{printable(file)}: cannot be read: {reason.lower()}") from None


def _chat_of(file: Path, text: str) -> dict[str, Any]:
    """Whole: tools and the like are part of a prompt too. But for the model's name, as whoever runs is asked."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f" ({error.msg} in line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise ConfigError(f"{printable(file)}: not JSON{where}; without --messages it would be taken as text") from None
    chat = value if isinstance(value, dict) else {"messages": value}
    if not isinstance(chat.get("messages"), list):
        raise ConfigError(f'{printable(file)}: neither a list of messages nor an object with "messages"')
    return {name: part for name, part in chat.items() if name != "model"}


@frozen
class Daemon:
    """Where it is, and the key that it is shown, with the file it came from. `is_own`: it runs here, whatever its
    address."""

    url: str
    secret: str = ""
    key_file: str = ""
    is_own: bool = False

    @classmethod
    def at(cls, url: str, key_file: Path | None) -> Daemon:
        """Raises ConfigError for what is no address, and for a file without a key."""
        try:
            parsed = httpx2.URL(url)
        except httpx2.InvalidURL:
            parsed = httpx2.URL("")
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise ConfigError("--url is not an address such as http://127.0.0.1:8080")
        base = url.rstrip("/").removesuffix("/v1")
        return cls(base) if key_file is None else cls(base, _secret_in(key_file), printable(key_file))

    @classmethod
    def of(cls, server: ServerConfig, key_file: Path | None = None) -> Daemon:
        """The one with these settings, as its own machine finds it. Raises as `at` does."""
        return evolve(cls.at(url_of(server), key_file), is_own=True)

    def session(self) -> httpx2.AsyncClient:
        """A proxy of the environment is of no use to a daemon on this machine."""
        headers = {"User-Agent": "reame"} | ({"Authorization": f"Bearer {self.secret}"} if self.secret else {})
        is_far = not self.is_own and httpx2.URL(self.url).host not in LOCAL
        timeout = httpx2.Timeout(CONNECT_S, read=SILENCE_S, write=SILENCE_S)
        try:
            return httpx2.AsyncClient(timeout=timeout, headers=headers, trust_env=is_far)
        except (ValueError, ImportError, OSError):  # the text of these may hold a proxy's password
            raise ConfigError(
                "the proxy or certificate settings cannot be used: check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE"
            ) from None

    def refusal(self, status: int, error: dict[str, Any]) -> ConfigError | RequestError:
        """ConfigError for what concerns every file, RequestError for what is wrong with this one."""
        if status == 401:
            known = f"does not know the key in {self.key_file}" if self.secret else "wants an API key"
            return ConfigError(f"{self.url} {known}: give it with --key-file")
        if status in (404, 405):
            return ConfigError(f"{self.url} has no /v1/warm: update Reame there and restart it, or correct --url")
        message = error.get("message") or f"{self.url} answered with status {status}"
        fatal = status == 503 or status < 400
        return ConfigError(f"{self.url}: {message}") if fatal else RequestError(str(message), status=status)


def url_of(server: ServerConfig) -> str:
    """Where a daemon with these settings is found from the machine that it runs on."""
    host = EVERYWHERE.get(server.host, server.host)
    return f"http://[{host}]:{server.port}" if ":" in host else f"http://{host}:{server.port}"


def _secret_in(file: Path) -> str:
    lines = [line.strip() for line in _text_of(file).splitlines()]
    keys = [line for line in lines if line and not line.startswith("#")]
    name, colon, key = (keys[0] if keys else "").partition(":")
    secret = (key if colon else name).strip()  # as the server reads it: a key may hold a colon
    if not secret or not all("!" <= letter <= "~" for letter in secret):
        raise ConfigError(f"{printable(file)}: no key in its first line; write the key there, alone or as `name:key`")
    return secret


async def warm_all(daemon: Daemon, bodies: Bodies) -> int:
    """The exit status. Raises ConfigError for what makes it pointless to go on."""
    began, done = time.monotonic(), []
    try:
        async with daemon.session() as session:
            for name, body in bodies.items():
                try:
                    started = time.monotonic()
                    with shown(name, sys.stderr) as show:
                        answer = await _warm(daemon, session, body, show)
                except RequestError as error:
                    print(f"reame: {name}: {error}", file=sys.stderr, flush=True)
                else:
                    print(f"{name}: {_account([answer], time.monotonic() - started)}", flush=True)
                    done.append(answer)
    except (httpx2.ConnectError, httpx2.ConnectTimeout):
        raise ConfigError(
            f"nothing answers at {daemon.url}: start the daemon with `reame serve`, or say with --url where it is"
        ) from None
    except httpx2.HTTPError:
        raise ConfigError(f"{daemon.url} broke off in the middle: run this again when the daemon is back") from None
    if len(bodies) > 1:
        print(f"{len(done)} of {len(bodies)} files are warm: {_account(done, time.monotonic() - began)}")
    _tell_of_pins([answer["pinned_until"] for answer in done] if any(b["pin"] for b in bodies.values()) else [])
    return 0 if len(done) == len(bodies) else 1


def _account(answers: list[dict[str, Any]], seconds: float) -> str:
    tokens, computed = (sum(answer[name] for answer in answers) for name in ("prompt_tokens", "computed_tokens"))
    return f"{tokens:,} tokens, {computed:,} computed, {seconds:.1f} s"


def _tell_of_pins(ends: list[float | None]) -> None:
    if None in ends:
        print("reame: nothing is pinned: this daemon keeps nothing on disk (memory.enabled)", file=sys.stderr)
    elif ends:
        until = datetime.fromtimestamp(min(end for end in ends if end is not None)).astimezone()
        print(f"pinned until {until:%Y-%m-%d %H:%M}")


async def _warm(daemon: Daemon, session: httpx2.AsyncClient, body: dict[str, Any], show: Show) -> dict[str, Any]:
    """The daemon's final word. While it has no room, or loads its model, this waits and tries again."""
    said = ""
    while True:
        async with session.stream("POST", f"{daemon.url}/v1/warm", json=body) as response:
            if response.status_code == 200:
                return await _follow(daemon, response, show)
            error = _error_in(await response.aread())
            if response.status_code != 429 and error.get("code") != "server_loading":
                raise daemon.refusal(response.status_code, error)
        pause = response.headers.get("Retry-After", "")
        if said != (said := f"{daemon.url}: {error.get('message')}"):
            show.say(f"{said}; waiting")
        await trio.sleep(min(int(pause), MAX_PAUSE_S) if pause.isdecimal() else 1)


async def _follow(daemon: Daemon, response: httpx2.Response, show: Show) -> dict[str, Any]:
    """Reads on to the end whatever comes: a response that is left in the middle leaves its generators behind."""
    answer: dict[str, Any] = {}
    error: dict[str, Any] = {}
    async for line in response.aiter_lines():
        event = _event_in(line)
        if event.get("object") == "warm.progress":
            show.progress(event["computed_tokens"], event["prompt_tokens"])
        elif event.get("object") == "warm":
            answer = event
        error = event.get("error", error)
    if error:
        raise daemon.refusal(503 if error.get("code") == "server_stopping" else 500, error)
    if not answer:
        raise ConfigError(f"{daemon.url} does not answer as a Reame daemon does: correct --url")
    return answer


def _event_in(line: str) -> dict[str, Any]:
    """The object of a stream's line, {} for lines that have none."""
    try:
        event = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
    except ValueError:
        return {}
    return dict(event)


def _error_in(data: bytes) -> dict[str, Any]:
    """OpenAI's error object, {} in what other servers answer."""
    try:
        error = json.loads(data)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}
