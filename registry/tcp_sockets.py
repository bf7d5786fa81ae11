"""Lists the TCP sockets of this machine, and the processes that have them open (Linux)."""

from __future__ import annotations

import contextlib
import ipaddress
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ESTABLISHED: Final = "01"
LISTENS: Final = "0A"


class TcpSocket(NamedTuple):
    """A TCP socket of this machine."""

    state: str
    host: str
    port: int
    peer_host: str
    peer_port: int
    inode: str


def tcp_sockets() -> Iterator[TcpSocket]:
    """Every TCP socket in /proc/net; none if the system has no /proc/net."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                words = line.split()
                yield TcpSocket(words[3], *_address(words[1]), *_address(words[2]), words[9])


def _address(text: str) -> tuple[str, int]:
    """Decode ``0100007F:2694`` (127.0.0.1:9876); each four bytes of an address are in the machine's byte order."""
    digits, _, port = text.partition(":")
    packed = b"".join(bytes.fromhex(digits[at : at + 8])[::-1] for at in range(0, len(digits), 8))
    return plain(str(ipaddress.ip_address(packed))), int(port, 16)


def listeners(port: int) -> set[int]:
    """The processes that listen on a port, as far as this user may see them."""
    inodes = {one.inode for one in tcp_sockets() if one.state == LISTENS and one.port == port}
    return set[int]().union(*owners_of(inodes).values()) if inodes else set()


def owners_of(inodes: Collection[str]) -> dict[str, set[int]]:
    """Inode of a socket -> the processes that have it open, as far as this user may see them."""
    found: dict[str, set[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            for file in (folder / "fd").iterdir():
                with contextlib.suppress(OSError):
                    inode = os.readlink(file).removeprefix("socket:[").removesuffix("]")
                    if inode in inodes:
                        found.setdefault(inode, set()).add(int(folder.name))
    return found


def plain(host: str) -> str:
    """A host without brackets and zone; an IPv4 address in IPv6 form becomes IPv4."""
    address = host.strip("[]").partition("%")[0]
    with contextlib.suppress(ValueError):
        parsed = ipaddress.ip_address(address)
        return str(getattr(parsed, "ipv4_mapped", None) or parsed)
    return address
