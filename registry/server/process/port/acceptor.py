"""The port of a front end: a single worker listens itself; for several, the parent accepts and passes connections on.

The parent passes each connection (SCM_RIGHTS) to the worker that has fewest. With a listening socket for each worker
(SO_REUSEPORT) the kernel would distribute them by a hash of their addresses. With 64 connections and two workers, in
every ninth start one worker would get at least 20 % more than its share; with four workers, in every second start.
Brokers and clients keep their connections for days, so the imbalance would last.

Each worker has one end of a Unix socket pair (its channel): it receives connections from it, and sends back one byte
for each connection that has closed. The parent also keeps the worker's side of the pair open. So when a worker exits,
the parent can read the connections that the worker had not received, and gives them to the other workers.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import logging
import socket
from typing import Final

from ....errors import StartError
from .received_connections import AT_ONCE, receive
from .sockets import bind, close_all, listen

logger = logging.getLogger(__name__)

_OUT_OF_FILES_PAUSE_S: Final = 1.0
_FULL_PAUSE_S: Final = 0.01
# Clients that lose their connections together connect again at once. So the parent subtracts closed connections for all
# workers at the same moment, this time after the first report: otherwise the worker that reports first would get most
# clients.
_COUNT_AFTER_S: Final = 0.5
_FULL: Final = frozenset({errno.EAGAIN, errno.ETOOMANYREFS})


class SingleWorkerAcceptor:
    """For a single worker, which accepts connections itself: keeps the listening socket while the worker restarts."""

    def __init__(self, host: str, port: int, backlog: int) -> None:
        self._where = host, port
        self._listener = listen(host, port, backlog)

    def fd_for(self, index: int) -> int:
        """The listening socket itself."""
        return self._listener.fileno()

    def worker_ready(self, index: int) -> None:
        """Nothing to do: the worker accepts by itself."""

    def worker_ended(self, index: int, *, comes_back: bool) -> None:
        """Keep connections in the backlog for a worker that comes back; else refuse clients until a worker listens.

        Clients that are refused connect to another name server.
        """
        if not comes_back:
            self._listener.close()
            # if bind fails, the next worker cannot start either; when it ends, bind is tried again
            with contextlib.suppress(StartError):
                self._listener = bind(*self._where)

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()


class _Channel:
    """The socket pair to one worker process."""

    def __init__(self, *, taking: bool) -> None:
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.ours.setblocking(False)
        self.held = 0  # open connections that the worker was given, at the last count
        self.told = 0  # how many connections it has reported as closed since then
        self.taking = taking  # whether it gets connections; until the worker has started, they wait in the channel

    def give(self, connections: list[socket.socket]) -> bool:
        """Pass connections on; False: the channel is full, or the worker takes no more."""
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
        """The connections that the worker was given and has not received."""
        self.theirs.setblocking(False)
        found: list[socket.socket] = []
        with contextlib.suppress(BlockingIOError):
            while files := receive(self.theirs)[1]:
                found += [socket.socket(fileno=file) for file in files]
        return found

    def close(self) -> None:
        self.ours.close()
        self.theirs.close()


class SharedAcceptor:
    """Accepts in the parent, and passes each connection to the worker that has fewest. Uses the running event loop.

    A worker that has just ended and comes back still gets its share; these connections wait for its successor.
    Otherwise its clients, which all connect again at once, would stay with the other workers.
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

    def fd_for(self, index: int) -> int:
        """The worker's end of the channel."""
        return self._channels[index].theirs.fileno()

    def worker_ready(self, index: int) -> None:
        """Give this worker its share from now on, even if the worker before it failed."""
        self._channels[index].taking = True
        if not self._listens:
            self._listener.listen(self._backlog)
            self._listens = True
        self._deal()

    def worker_ended(self, index: int, *, comes_back: bool) -> None:
        """Keep the worker's share for its successor, or give it to the others.

        When no worker is left, clients are refused, so that they connect to another name server.
        """
        channel = self._shut(index)
        self._waiting += channel.left()
        channel.close()
        self._open(index, taking=comes_back)
        self._deal()
        if self._listens and not self._taking():
            self._refuse()
            with contextlib.suppress(StartError):  # this is tried again when the next worker ends
                self._listener = bind(*self._where)
                self._listener.setblocking(False)

    def close(self) -> None:
        """Accept no more connections, and close those that wait for a worker."""
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
        self._set_accepting(False)
        self._listener.close()
        self._listens = False
        close_all(self._waiting)
        self._waiting = []

    def _set_accepting(self, wanted: bool) -> None:
        """Accept connections, or leave them in the backlog."""
        if self._later is not None:
            self._later.cancel()
            self._later = None
        if wanted != self._accepting:
            self._accepting = wanted
            if wanted:
                self._loop.add_reader(self._listener, self._accept)
            else:
                self._loop.remove_reader(self._listener)

    def _accept_later(self, pause_s: float) -> None:
        self._set_accepting(False)
        self._later = self._loop.call_later(pause_s, self._deal)

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                self._waiting.append(self._listener.accept()[0])
            except (BlockingIOError, ConnectionAbortedError):
                break
            except OSError as error:
                logger.error("cannot accept connections, trying again in %g s: %s", _OUT_OF_FILES_PAUSE_S, error)
                self._accept_later(_OUT_OF_FILES_PAUSE_S)
                return
        self._deal()

    def _deal(self) -> None:
        """Pass waiting connections to the workers that have fewest; keep connections that no worker can take now."""
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
            self._accept_later(_FULL_PAUSE_S)
        else:
            self._set_accepting(self._listens and bool(self._taking()))


Acceptor = SingleWorkerAcceptor | SharedAcceptor
"""Brings connections to the workers. In its methods ``index`` is the number of a worker."""


def open_acceptor(host: str, port: int, backlog: int, workers: int) -> Acceptor:
    """Open the port for this number of workers. Raises StartError in the same cases as ``sockets.listen``."""
    return SingleWorkerAcceptor(host, port, backlog) if workers == 1 else SharedAcceptor(host, port, backlog, workers)
