"""Finds out who but brokers is connected to a name server: on this machine by itself, elsewhere from what ss said."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

_ESTABLISHED: Final = "01"
_LISTENS: Final = "0A"
_OLDEST_S: Final = 600
_PAIR: Final = re.compile(r"(\S+):(\d+)\s+(\S+):(\d+)\s*$")


class _Socket(NamedTuple):
    """A TCP socket of this machine."""

    state: str
    host: str
    port: int
    peer_host: str
    peer_port: int
    inode: str


def clients_here(host: str, port: int, brokers: Collection[str]) -> list[str] | None:
    """Connections to a port of this machine that are no broker's, nor of this process; None: it is not of this machine.

    A connection is a broker's if its process listens on the port of a broker's address, or if it comes from another
    machine that has a broker.

    Args:
        brokers: the addresses of all brokers.
    """
    if not _is_here(host):
        return None
    sockets = list(_sockets())
    if not any(one.state == _LISTENS and one.port == port for one in sockets):
        return None
    ports = {int(addr.rpartition(":")[2]) for addr in brokers if _is_here(addr.rpartition(":")[0])}
    listening = {one.inode for one in sockets if one.state == _LISTENS and one.port in ports}
    owners = _owners({one.inode for one in sockets})
    of_brokers = {owner for inode in listening for owner in owners.get(inode, ())} | {os.getpid()}
    # a port may serve several connections, to other places, so both ends count
    far_ends = {(one.host, one.port, one.peer_host, one.peer_port): one for one in sockets}
    found = []
    for one in sockets:
        if one.state != _ESTABLISHED or one.port != port or one.host != host:
            continue
        far = far_ends.get((one.peer_host, one.peer_port, one.host, one.port))
        from_broker = one.peer_host in _hosts(brokers) if far is None else of_brokers & owners.get(far.inode, set())
        if not from_broker:
            found.append(f"{one.peer_host}:{one.peer_port}")
    return sorted(found)


def clients_in(file: Path, port: int, brokers: Collection[str]) -> list[str]:
    """The same from what ``ss -Htn state established '( sport = :PORT )'`` printed on the name server's machine.

    Raises:
        click.UsageError: the file cannot be read, is older than ten minutes, or has lines of another form.
    """
    try:
        text, age_s = file.read_text(), time.time() - file.stat().st_mtime
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--peers: cannot read {file}: {error}") from error
    if age_s > _OLDEST_S:
        raise click.UsageError(f"--peers: {file} is {age_s / 60:.0f} minutes old, and tells nothing of now")
    found = []
    for line in filter(str.strip, text.splitlines()):
        pair = _PAIR.search(line)
        if pair is None:
            raise click.UsageError(f"--peers: {file}: {line[:80]!r}: expected lines of ss -Htn, with two addresses")
        if int(pair[2]) == port and _plain(pair[3]) not in _hosts(brokers):
            found.append(f"{_plain(pair[3])}:{pair[4]}")
    return sorted(found)


def _hosts(brokers: Iterable[str]) -> set[str]:
    return {addr.rpartition(":")[0] for addr in brokers}


def _plain(host: str) -> str:
    """A host without brackets, zone and the form of IPv4 in IPv6."""
    address = host.strip("[]").partition("%")[0]
    with contextlib.suppress(ValueError):
        parsed = ipaddress.ip_address(address)
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return address


def _is_here(host: str) -> bool:
    """Whether an address is one of this machine."""
    with contextlib.suppress(ValueError, OSError):
        family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            return True
    return False


def _sockets() -> Iterator[_Socket]:
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                yield _Socket(words[3], *_address(words[1]), *_address(words[2]), words[9])


def _address(text: str) -> tuple[str, int]:
    """``0100007F:2694`` is 127.0.0.1:9876: words of four bytes, in the order of this machine's bytes."""
    digits, _, port = text.partition(":")
    packed = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    return _plain(str(ipaddress.ip_address(packed))), int(port, 16)


def _owners(inodes: Collection[str]) -> dict[str, set[int]]:
    """Inode of a socket -> the processes that have it, as far as this user may see them."""
    found: dict[str, set[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or belongs to another user
            for file in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    inode = os.readlink(file).removeprefix("socket:[").removesuffix("]")
                    if inode in inodes:
                        found.setdefault(inode, set()).add(int(folder.name))
    return found
