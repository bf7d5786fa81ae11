"""Finds the clients, not brokers, that are connected to a name server: on this machine, or in the output of ss."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

import click

from ...tcp_sockets import ESTABLISHED, LISTENS, owners_of, plain, tcp_sockets

_OLDEST_S: Final = 600
_PAIR: Final = re.compile(r"(\S+):(\d+)\s+(\S+):(\d+)\s*$")


def clients_here(host: str, port: int, brokers: Collection[str]) -> list[str] | None:
    """The clients that are connected to a name server on this machine; None: no process of this machine listens there.

    Brokers and this process do not count. A connection is a broker's if its process listens on the port of one of
    ``brokers`` (all addresses of brokers), or if it comes from another machine that has a broker.
    """
    if not _is_here(host):
        return None
    sockets = list(tcp_sockets())
    if not any(one.state == LISTENS and one.port == port for one in sockets):
        return None
    ports = {int(addr.rpartition(":")[2]) for addr in brokers if _is_here(addr.rpartition(":")[0])}
    listening = {one.inode for one in sockets if one.state == LISTENS and one.port in ports}
    owners = owners_of({one.inode for one in sockets})
    of_brokers = {owner for inode in listening for owner in owners.get(inode, ())} | {os.getpid()}
    # a process may use one port for several connections, so only both ends together identify a connection
    far_ends = {(one.host, one.port, one.peer_host, one.peer_port): one for one in sockets}
    found = []
    for one in sockets:
        if one.state != ESTABLISHED or one.port != port or one.host != host:
            continue
        far = far_ends.get((one.peer_host, one.peer_port, one.host, one.port))
        from_broker = one.peer_host in _hosts(brokers) if far is None else of_brokers & owners.get(far.inode, set())
        if not from_broker:
            found.append(f"{one.peer_host}:{one.peer_port}")
    return sorted(found)


def clients_in(file: Path, port: int, brokers: Collection[str]) -> list[str]:
    """The clients that are connected to a name server on another machine, without brokers.

    ``file``: what ``ss -Htn state established '( sport = :PORT )'`` printed on that machine.

    Raises:
        click.UsageError: the file cannot be read, is older than ten minutes, or has lines of another form.
    """
    try:
        text, age_s = file.read_text(), time.time() - file.stat().st_mtime
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--peers: cannot read {file}: {error}") from error
    if age_s > _OLDEST_S:
        raise click.UsageError(f"--peers: {file} is {age_s / 60:.0f} minutes old: run ss again")
    found = []
    for line in filter(str.strip, text.splitlines()):
        pair = _PAIR.search(line)
        if pair is None:
            raise click.UsageError(f"--peers: {file}: {line[:80]!r}: expected lines of ss -Htn, with two addresses")
        if int(pair[2]) == port and plain(pair[3]) not in _hosts(brokers):
            found.append(f"{plain(pair[3])}:{pair[4]}")
    return sorted(found)


def _hosts(brokers: Iterable[str]) -> set[str]:
    return {addr.rpartition(":")[0] for addr in brokers}


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine."""
    with contextlib.suppress(ValueError, OSError):
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            return True
    return False
