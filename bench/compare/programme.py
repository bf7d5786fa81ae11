"""Chooses the steps that are measured of each server, and their order."""

from __future__ import annotations

from bench.compare.life import Life
from bench.servers.peers import Echo, Java, Ours, OurServer, Peer

CLOSED = ((64, 1), (64, 16), (2000, 1))
SPREADS = (64, 2000)
MAIN_JAVA = "5.5.0"


def run_programme(life: Life, peer: Peer, *, small: bool) -> None:
    """Run the steps for this kind of server.

    Args:
        small: the shape is S1: only the closed loop with 16 connections is measured.
    """
    if small:
        _small(life)
    elif isinstance(peer, Echo):
        _limit(life, everything=peer.bodies == 1)
    elif isinstance(peer, Ours) and peer.workers > 1:
        _workers(life)
    elif isinstance(peer, Java) and (peer.version != MAIN_JAVA or peer.heap != Java(peer.version).heap):
        _memory(life)
    else:
        _everything(life)


def _everything(life: Life) -> None:
    server = life.server
    life.record.add("start", seconds=server.start_s)
    life.storm("S7 fresh")
    life.memory("asked")
    life.warm_up()
    life.closed_loops(CLOSED)
    life.memory("loaded")
    life.open_loops(rate=2_000)
    if life.record.round % 2:
        life.ladder()
    life.registrations()
    life.leave()
    life.storm("S7 warm")
    if isinstance(server, OurServer):
        life.restart(server)


def _small(life: Life) -> None:
    if life.checked:
        life.storm("S1 fill")
    else:
        life.wrong_routes()
    life.warm_up()
    life.closed_loops([(16, 1)])


def _limit(life: Life, *, everything: bool) -> None:
    life.wrong_routes()
    life.warm(life.effort.settle_s)
    life.closed_loops(CLOSED if everything else CLOSED[:1])
    if everything and life.record.round % 2:
        life.ladder()


def _workers(life: Life) -> None:
    life.storm("S7 fresh")
    life.memory("asked")
    life.warm_up()  # each worker encodes and keeps its own answers
    life.closed_loops(CLOSED[:2])
    if isinstance(life.server, OurServer):
        life.spread(life.server, SPREADS)


def _memory(life: Life) -> None:
    """S5 and S6 of the other Java NameServers: the start, the fill, and the memory."""
    life.record.add("start", seconds=life.server.start_s)
    life.storm("S7 fresh")
    life.memory("asked")
    life.warm(life.effort.settle_s * 2)
    life.closed_loops([(64, 1)])
    life.memory("loaded")
