"""The author of a change: the member ``by`` of events, and what a process writes there about itself."""

from __future__ import annotations

import functools
import os
import re
import socket
from typing import Final

import msgspec

from ..names import MAX_NAME_BYTES, printable

# The values of ``how``; a later release may add others. How the sender of a request was identified:
SIGNATURE: Final = "signature"
CERTIFICATE: Final = "certificate"
NETWORK: Final = "network"
ANONYMOUS: Final = "anonymous"
OVER_THE_WIRE: Final = frozenset({SIGNATURE, CERTIFICATE, NETWORK, ANONYMOUS})

# Programs that a person runs, and that write to Redis themselves; direct: a program that uses this library.
CLI: Final = "cli"
CONSOLE: Final = "console"
DIRECT: Final = "direct"
BY_HAND: Final = frozenset({CLI, CONSOLE, DIRECT})

# Processes of the registry without a request: a sweeper (timeouts, dead workers), and a worker that shuts down or
# restores changes that Redis lost.
SWEEPER: Final = "sweeper"
WORKER: Final = "worker"

_PLAIN: Final = re.compile(r"[\w.@+/:=,-]+")


class By(msgspec.Struct, frozen=True, omit_defaults=True):
    """The author of a change. None: not known, or not applicable."""

    how: str  # a constant above
    # the registry's user who sent the request or logged in at the console; of a program that writes to Redis itself,
    # the user of the operating system
    user: str | None = None
    # host:port of the sender; with a login at the console, the browser's address; of a program that writes to Redis
    # itself, <host name>/<process id>
    peer: str | None = None
    via: str | None = None  # host:port of a proxy between the sender and the front end
    front_end: str | None = None  # <host name>:<port> of the front end that got the request, or has the process
    login: str | None = None  # the Redis user in the URL of a program that writes to Redis itself

    def encoded(self) -> bytes:
        """Return it as JSON, for the event."""
        return msgspec.json.encode(self)

    def __str__(self) -> str:
        """Text for people: control characters are escaped, and a special name is quoted."""
        login = f", Redis user {_shown(self.login)}" if self.login else ""
        text = f"{_shown(self.user)} ({self.how}{login})" if self.user else f"{self.how}{login}"
        if self.peer:
            is_sender = self.how in OVER_THE_WIRE or (self.how == CONSOLE and "/" not in self.peer)
            text += f" {'from' if is_sender else 'on'} {_shown(self.peer)}"
        if self.via:
            text += f" via {_shown(self.via)}"
        if self.front_end:
            text += f" at {_shown(self.front_end)}"
        return printable(text)


def _shown(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else msgspec.json.encode(name).decode()


def this_process(how: str, *, front_end: str | None = None, login: str | None = None) -> By:
    """The calling process as an author."""
    user = _os_user() if how in BY_HAND else None
    return By(how, user, f"{host_name()}/{os.getpid()}", front_end=front_end, login=login)


def front_end_name(port: int) -> str:
    """The name of a front end that listens on this port of this machine."""
    return f"{host_name()}:{port}"


@functools.cache
def host_name() -> str:
    """The host name of this machine."""
    return _bounded(socket.gethostname())


@functools.cache
def _os_user() -> str:
    """The user who runs this process; under sudo, the user who called sudo."""
    try:
        import pwd
    except ImportError:  # no Unix
        return _bounded(os.environ.get("USERNAME", "unknown"))
    user_id = os.getuid()
    caller = os.environ.get("SUDO_USER") if user_id == 0 else None
    if caller:
        return _bounded(caller)
    try:
        return _bounded(pwd.getpwuid(user_id).pw_name)
    except KeyError:  # a container may run as a number without a name
        return f"uid {user_id}"


def _bounded(text: str) -> str:
    """A text of this machine, which may have any bytes, in a form for events."""
    return printable(text)[:MAX_NAME_BYTES]
