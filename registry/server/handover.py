"""Several workers, one port: the parent accepts, and hands each connection to the worker that holds fewest.

The kernel's own way, a listening socket a worker (SO_REUSEPORT), deals connections out by a hash of their addresses.
Of 64 connections over two workers that puts 20 % too many on one of them in one start of nine, over four workers in
one of two; brokers and clients hold their connections for days, so it stays that way.

Each worker's end of a Unix socket pair (its channel) carries the connections to it, and back one byte for each that
is over. The parent keeps that end open as well: what a worker had not taken when it ended goes to the others.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import logging
import socket
from typing import Final, Protocol

from registry.errors import StartError
from registry.server.handed import AT_ONCE, receive
from registry.server.sockets import bind, close_all, listen

logger = logging.getLogger(__name__)

_OUT_OF_FILES_PAUSE_S: Final = 1.0
_FULL_PAUSE_S: Final = 0.01
# Clients that are cut off all at once come back at once, and one worker may tell of it before another does: what is
# over is counted for all of them together, a while after the first told of it. Else the first one got most of them.
_COUNT_AFTER_S: Final = 0.5
_FULL: Final = frozenset({errno.EAGAIN, errno.ETOOMANYREFS})


class Entrance(Protocol):
    """How connections come to the workers; all calls but the last name a worker by its index."""

    def begin(self, index: int) -> int:
        """The file that a worker about to be started inherits."""

    def answers(self, index: int) -> None:
        """It serves from now on."""

    def ended(self, index: int, *, comes_back: bool) -> None:
        """It is gone; comes_back: it answered, so its successor is likely to answer soon."""

    def close(self) -> None:
        """Take no more."""


class OwnSocket:
    """One worker alone listens itself; this keeps its socket over its restarts.

    Raises:
        StartError: as ``sockets.listen``.
    """

    def __init__(self, host: str, port: int, backlog: int) -> None:
        self._where = host, port
        self._listener = listen(host, port, backlog)

    def begin(self, index: int) -> int:
        """The listening socket itself."""
        return self._listener.fileno()

    def answers(self, index: int) -> None:
        """It accepts by itself."""

    def ended(self, index: int, *, comes_back: bool) -> None:
        """The socket goes on collecting connections for a successor; without one, clients must be refused, so that
        they turn to another name server. The new socket takes connections once its worker listens.
        """
        if not comes_back:
            self._listener.close()
            with contextlib.suppress(StartError):  # then the worker fails again, and this is tried again
                self._listener = bind(*self._where)

    def close(self) -> None:
        """Take no more."""
        self._listener.close()


class _Channel:
    """The way to one worker in one of its lives.

    held: connections that it was given and that are not over, as far as counted; told: those that are over since.
    taking: whether it takes any; those that come before it is up wait in the channel.
    """

    def __init__(self, *, taking: bool) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.ours.setblocking(False)
        self.held = self.told = 0
        self.taking = taking

    def give(self, connections: list[socket.socket]) -> bool:
        """Whether they went; else its channel is full, or it takes no more."""
        files = array.array("i", [each.fileno() for each in connections])
        try:
            self.ours.sendmsg([bytes([len(connections)])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
        except OSError as error:
            if error.errno not in _FULL:
                self.taking = False
            return False
        self.held += len(connections)
        close_all(connections)
        return True

    def left(self) -> list[socket.socket]:
        """What was given and not taken."""
        self.theirs.setblocking(False)
        found: list[socket.socket] = []
        with contextlib.suppress(BlockingIOError):
            while files := receive(self.theirs)[1]:
                found += [socket.socket(fileno=file) for file in files]
        return found

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


class Handover:
    """The parent's side. Belongs to the running event loop.

    A worker that has just ended, having answered before, gets its share all the same: it waits for the successor.
    Else its clients, which all come back at once, would stay with the others for as long as they live.

    Raises:
        StartError: as ``sockets.listen``.
    """

    def __init__(self, host: str, port: int, backlog: int, workers: int) -> None:
        self._where, self._backlog = (host, port), backlog
        self._loop = asyncio.get_running_loop()
        self._listener = listen(host, port, backlog)
        self._listener.setblocking(False)
        self._listens, self._accepting = True, False
        self._channels: dict[int, _Channel] = {}
        self._waiting: list[socket.socket] = []
        self._later: asyncio.TimerHandle | None = None
        self._counting: asyncio.TimerHandle | None = None
        for index in range(workers):
            self._open(index, taking=True)
        self._deal()

    @property
    def held(self) -> list[int]:
        """How many connections each worker holds."""
        return [self._channels[index].held for index in sorted(self._channels)]

    def begin(self, index: int) -> int:
        """Its end of the channel."""
        return self._channels[index].theirs.fileno()

    def answers(self, index: int) -> None:
        """It gets its share from now on, also when the one before it failed."""
        self._channels[index].taking = True
        if not self._listens:
            self._listener.listen(self._backlog)
            self._listens = True
        self._deal()

    def ended(self, index: int, *, comes_back: bool) -> None:
        """Its share waits for the successor, or goes to the others. With nobody left clients are refused, so that they
        turn to another name server.
        """
        channel = self._shut(index)
        self._waiting += channel.left()
        channel.close()
        self._open(index, taking=comes_back)
        self._deal()
        if self._listens and not self._taking():
            self._refuse()
            with contextlib.suppress(StartError):  # the next to end tries again
                self._listener = bind(*self._where)
                self._listener.setblocking(False)

    def close(self) -> None:
        """Take no more; what waits is closed."""
        self._refuse()
        if self._counting is not None:
            self._counting.cancel()
        for index in list(self._channels):
            self._shut(index).close()

    def _open(self, index: int, *, taking: bool) -> None:
        channel = self._channels[index] = _Channel(taking=taking)
        self._loop.add_reader(channel.ours, self._hear, channel)

    def _shut(self, index: int) -> _Channel:
        channel = self._channels.pop(index)
        self._loop.remove_reader(channel.ours)
        return channel

    def _hear(self, channel: _Channel) -> None:
        with contextlib.suppress(OSError):
            channel.told += len(channel.ours.recv(65536))
            if self._counting is None:
                self._counting = self._loop.call_later(_COUNT_AFTER_S, self._count)

    def _count(self) -> None:
        self._counting = None
        for channel in self._channels.values():
            channel.held -= channel.told
            channel.told = 0

    def _taking(self) -> list[_Channel]:
        return [channel for channel in self._channels.values() if channel.taking]

    def _refuse(self) -> None:
        self._look(False)
        self._listener.close()
        self._listens = False
        close_all(self._waiting)
        self._waiting = []

    def _look(self, wanted: bool) -> None:
        """Accept, or leave what comes in the backlog."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if wanted != self._accepting:
            self._accepting = wanted
            if wanted:
                self._loop.add_reader(self._listener, self._accept)
            else:
                self._loop.remove_reader(self._listener)

    def _look_later(self, pause_s: float) -> None:
        self._look(False)
        self._later = self._loop.call_later(pause_s, self._deal)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                self._waiting.append(self._listener.accept()[0])
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:
                logger.error("cannot accept connections, trying again in %g s: %s", _OUT_OF_FILES_PAUSE_S, error)
                self._look_later(_OUT_OF_FILES_PAUSE_S)
                return
        self._deal()

    def _deal(self) -> None:
        """Give what waits to those that hold fewest; what nobody can take now goes on waiting."""
        able = self._taking()
        while self._waiting and able:
            shares: dict[_Channel, list[socket.socket]] = {channel: [] for channel in able}
            for connection in self._waiting:
                least = min(able, key=lambda channel: channel.held + len(shares[channel]))
                shares[least].append(connection)
            self._waiting = []
            for channel, share in shares.items():
                for at in range(0, len(share), AT_ONCE):
                    if not channel.give(share[at : at + AT_ONCE]):
                        self._waiting += share[at:]
                        able.remove(channel)
                        break
        if self._waiting and self._taking():
            self._look_later(_FULL_PAUSE_S)
        else:
            self._look(self._listens and bool(self._taking()))


def entrance(host: str, port: int, backlog: int, workers: int) -> Entrance:
    """The port, for so many workers.

    Raises:
        StartError: as ``sockets.listen``.
    """
    return OwnSocket(host, port, backlog) if workers == 1 else Handover(host, port, backlog, workers)
