"""Opens the listening socket of a front end, with errors that say what to do; waits some seconds for a taken port."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeVar

from ....config.settings import Settings
from ....errors import StartError
from ....names import printable
from ....tasks import wait_within
from ....tcp_sockets import listeners

logger = logging.getLogger(__name__)

# The workers of a killed front end free the port at once; a front end that drains may keep it longer than this.
_WAIT_S: Final = 5.0
_TRY_EVERY_S: Final = 0.05

T = TypeVar("T")


class PortTaken(StartError):
    """Another process listens on a port; ``port`` is its number."""

    def __init__(self, text: str, port: int) -> None:
        super().__init__(text)
        self.port = port


def holder_of(port: int) -> str:
    """Which processes listen on a port: "process 17 (python)"; "" = not known (of another user, or no Linux)."""
    found = []
    for pid in listeners(port):
        with contextlib.suppress(OSError):  # it has ended
            found.append(f"process {pid} ({printable(Path(f'/proc/{pid}/comm').read_text().strip())})")
    return " and ".join(sorted(found))


async def when_free(make: Callable[[], T], stopping: asyncio.Event) -> T:
    """Call ``make``, which opens a port; while another process holds the port, try again for some seconds.

    Raises:
        StartError: the port cannot be used; PortTaken: it was not free in time, or ``stopping`` was set.
    """
    until, told = time.monotonic() + _WAIT_S, False
    while True:
        try:
            return make()
        except PortTaken as taken:
            if time.monotonic() > until or stopping.is_set():
                raise
            if not told:
                who = holder_of(taken.port) or "another process"
                logger.warning("port %d is held by %s: waiting up to %.0f s for it to end", taken.port, who, _WAIT_S)
            told = True
        await wait_within(stopping, _TRY_EVERY_S)


def bind(host: str, port: int) -> socket.socket:
    """Open a socket and bind it to the port; it accepts no connection before its owner listens.

    Raises:
        StartError: the port is taken (PortTaken) or may not be used; the message says which and what to do.
    """
    try:
        # as bytes: for a str Python would import the codec of international names
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the host's name is too long or empty
        why = getattr(error, "strerror", None) or error
        raise StartError(f"cannot listen on {host}:{port}: no such address: {why}") from error
    family, kind, protocol, _, address = found[0]
    try:
        opened = socket.socket(family, kind, protocol)
    except OSError as error:  # no IPv6 here
        raise _failure(host, port, error) from error
    # connections in TIME_WAIT must not prevent a restart
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
    try:
        opened.bind(address)
    except OSError as error:
        opened.close()
        raise _failure(host, port, error) from error
    return opened


def listen(host: str, port: int, backlog: int) -> socket.socket:
    """Open a listening socket; StartError as :func:`bind`.

    The socket has no SO_REUSEPORT: so no second server can share the port unnoticed, even if it sets this option.
    """
    opened = bind(host, port)
    try:
        opened.listen(backlog)
    except OSError as error:  # another socket, which was only bound before, listens by now
        opened.close()
        raise _failure(host, port, error) from error
    return opened


def close_all(sockets: Iterable[socket.socket]) -> None:
    """Close every one of these sockets."""
    for each in sockets:
        each.close()


def _failure(host: str, port: int, error: OSError) -> StartError:
    where = f"cannot listen on {host}:{port}"
    if error.errno == errno.EADDRINUSE:
        who = holder_of(port) or "another server (a name server, perhaps)"
        return PortTaken(
            f"{where}: port taken; {who} listens there: stop it, or choose another port with --port (what it is: "
            f"ss -ltnp 'sport = :{port}')", port,
        )  # fmt: skip
    if error.errno == errno.EACCES:
        return StartError(
            f"{where}: not permitted; ports below 1024 need rights that this user does not have: choose another --port"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return StartError(f"{where}: this machine has no such address; --host takes one of its own, or 0.0.0.0 for all")
    return StartError(f"{where}: {os.strerror(error.errno) if error.errno else error}")


def advertised(settings: Settings) -> tuple[str, str]:
    """``host:port`` at which others reach this front end, and the same for its HTTP port ("" = there is none)."""
    host, _, port = settings.advertised_address.rpartition(":")
    if not host or not port.isdecimal():
        host, port = settings.advertised_address, ""
    if not host:
        host = settings.bind_address
        if host in ("", "0.0.0.0", "::"):
            host = _own_address(socket.AF_INET6 if host == "::" else socket.AF_INET)
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    http = settings.effective_http_port
    return f"{host}:{port or settings.listen_port}", f"{host}:{http}" if http else ""


def _own_address(family: socket.AddressFamily) -> str:
    """The address of this machine as other machines see it. No packet is sent: the kernel only looks for a route."""
    elsewhere = "2001:db8::1" if family == socket.AF_INET6 else "192.0.2.1"  # reserved for documentation
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:  # this machine has no network
        return "::1" if family == socket.AF_INET6 else "127.0.0.1"
