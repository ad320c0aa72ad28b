"""Listening sockets."""

from __future__ import annotations

import errno
import os
import socket
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

from reame.config_rules import is_loopback
from reame.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import MutableMapping

FIRST_INHERITED = 3
"""systemd hands over the descriptors from this one on (sd_listen_fds(3))."""

BACKLOG = 256
"""Connections that the kernel keeps until they are accepted."""
_PROBE_S = 15
"""Seconds of silence after which the kernel asks a client's machine whether it is still there."""


def listen(host: str, port: int) -> list[socket.socket]:
    """Bind and listen on every address of `host`; port 0 picks a free one. Raises ConfigError."""
    sockets: list[socket.socket] = []
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            if port == 0 and sockets:
                address = (address[0], sockets[0].getsockname()[1], *address[2:])
            sockets.append(_open(family, address))
    except OSError as error:
        for opened in sockets:
            opened.close()
        raise ConfigError(_why_not(host, port, error)) from None
    return sockets


def _open(family: int, address: tuple[object, ...]) -> socket.socket:
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(address)
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened


def _why_not(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use: stop what listens there, or set server.port"
    if error.errno == errno.EACCES:
        return f"port {port} needs rights that this process lacks: set server.port to 1024 or more"
    return f"cannot listen on {host}, port {port} ({error.strerror}): set server.host and server.port"


def inherited(environ: MutableMapping[str, str], *, has_keys: bool) -> list[socket.socket] | None:
    """The listening sockets that the service manager opened for this process; None when it opened none.

    Takes the variables that tell of them out of `environ`, so that no child process believes that it has them. Raises
    ConfigError for what cannot be listened on, and for an address that other machines reach while no key is asked for.
    """
    pid, names = environ.pop("LISTEN_PID", ""), environ.pop("LISTEN_FDS", "")
    environ.pop("LISTEN_FDNAMES", None)
    if pid != str(os.getpid()) or not names.isdecimal() or not int(names):
        return None
    sockets = [_inherit(FIRST_INHERITED + number) for number in range(int(names))]
    for each in sockets:
        host = each.getsockname()[0] if each.family != socket.AF_UNIX else ""
        if host and not has_keys and not is_loopback(host):
            raise ConfigError(
                f"the socket unit listens on {host}, which other machines reach, and no key is asked for: name a file"
                " of keys in server.api_keys_file, or let ListenStream= say 127.0.0.1:PORT"
            )
    return sockets


def _inherit(descriptor: int) -> socket.socket:
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ENOTSOCK, "no socket")
        opened = socket.socket(fileno=descriptor)
        if opened.type != socket.SOCK_STREAM or not opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            raise OSError(errno.EINVAL, "not a stream socket that listens")
    except OSError as error:
        raise ConfigError(
            f"descriptor {descriptor} of the socket unit cannot be used ({error.strerror}): it must have ListenStream="
            " and Accept=no"
        ) from None
    opened.set_inheritable(False)
    opened.setblocking(False)
    return opened


def notice_vanished_clients(listening: socket.socket, seconds: float) -> None:
    """Have the kernel give up connections whose client acknowledges nothing for that long, or is gone while silent.

    Accepted connections inherit the settings. A socket that is not TCP has no use for them.
    """
    options = {
        "TCP_USER_TIMEOUT": max(int(seconds * 1000), 1),
        "TCP_KEEPIDLE": _PROBE_S,
        "TCP_KEEPINTVL": _PROBE_S,
        "TCP_KEEPCNT": 3,
    }
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in options.items():
        with suppress(AttributeError, OSError):
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def url(listening: socket.socket) -> str:
    """Where a client finds this socket."""
    if listening.family == socket.AF_UNIX:
        return f"unix:{os.fsdecode(listening.getsockname())}"
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
