"""Decides which steps of a migration between name servers are done, and which step may be done next.

Clients must leave the old name servers before brokers do: a Java NameServer without the brokers answers that their
topics do not exist (code 17).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from ..operators.words import counted, some_of


class Step(StrEnum):
    """The steps, in the order that is safe."""

    SERVERS = "servers"
    BROKERS_JOIN = "brokers-join"
    AGREE = "agree"
    CLIENTS_LEAVE = "clients-leave"
    BROKERS_LEAVE = "brokers-leave"
    STOP = "stop"


class StepState(StrEnum):
    """NEXT: may be done now. LATER: an earlier step is missing. WRONG: brokers left first. UNKNOWN: see ``why``."""

    DONE = "done"
    NEXT = "next"
    LATER = "later"
    WRONG = "wrong"
    UNKNOWN = "not known"


class Server(msgspec.Struct, frozen=True):
    """A name server as it is now."""

    address: str
    error: str = ""  # why it cannot be asked
    brokers: frozenset[str] = frozenset()  # addresses of the brokers that it knows
    clients: Sequence[str] | None = None  # addresses of connected peers that are no brokers; None: not known


class Done(msgspec.Struct, frozen=True):
    """The state of a step. ``why``: what is missing, or what shows that it is done."""

    step: Step
    state: StepState
    why: str = ""


def steps(old: Sequence[Server], new: Sequence[Server], differences: Sequence[str] | None) -> list[Done]:
    """The state of each step, in their order.

    Args:
        old: the servers to leave. new: the servers that take over.
        differences: between all of them, in words; None: some could not be read.
    """
    there, here = _brokers(old), _brokers(new)
    left = bool(here) and not there
    clients, who = _clients(old) if here else (False, "first brokers have to know the new ones")
    checks: tuple[tuple[Step, bool | None, str], ...] = (
        (Step.SERVERS, *_servers(new)),
        (Step.BROKERS_JOIN, *((True, "they have left the old ones") if left else _join(there, new))),
        (Step.AGREE, *((True, "brokers have left the old ones") if left else _agree(differences))),
        (Step.CLIENTS_LEAVE, clients, who),
        (
            Step.BROKERS_LEAVE,
            left,
            f"{counted(len(here if left else there), 'broker')} at the {'new' if left else 'old'} ones",
        ),
        (Step.STOP, *(_stopped(old) if left else (False, ""))),
    )
    found, ready = list[Done](), True
    for step, is_done, why in checks:
        state = StepState.UNKNOWN if is_done is None else StepState.NEXT
        if is_done or not ready:
            state = StepState.DONE if is_done else StepState.LATER
        found.append(Done(step, state, why))
        ready = ready and bool(is_done)
    gone = sorted(here - there)
    if clients is False and gone:
        found[3] = Done(
            Step.CLIENTS_LEAVE, StepState.WRONG,
            f"brokers have left before the clients: {some_of(gone)}. {who}: these are answered that there is no route "
            "(code 17). Let the brokers know all name servers again first",
        )  # fmt: skip
        found[4:] = [Done(step, StepState.LATER, "see above") for step in (Step.BROKERS_LEAVE, Step.STOP)]
    return found


def _brokers(servers: Sequence[Server]) -> frozenset[str]:
    return frozenset[str]().union(*(one.brokers for one in servers))


def _servers(new: Sequence[Server]) -> tuple[bool, str]:
    away = [f"{one.address}: {one.error}" for one in new if one.error]
    return not away, "; ".join(away) or "all of the new ones answer"


def _join(there: frozenset[str], new: Sequence[Server]) -> tuple[bool, str]:
    if not there:
        return False, "no broker is registered at the old ones"
    lacking = [f"{one.address} lacks {some_of(sorted(there - one.brokers))}" for one in new if there - one.brokers]
    return not lacking, "; ".join(lacking) or f"{counted(len(there), 'broker')} at all of the new ones"


def _agree(differences: Sequence[str] | None) -> tuple[bool, str]:
    if differences is None:
        return False, "not all of them could be read"
    return not differences, some_of(list(differences)) or "clusters, routes, KV and configuration are the same"


def _clients(old: Sequence[Server]) -> tuple[bool | None, str]:
    there = [one for one in old if not one.error]
    known = [f"{peer} at {one.address}" for one in there for peer in one.clients or ()]
    if known:
        return False, f"connected, and no broker's: {some_of(known)}"
    if unknown := [one.address for one in there if one.clients is None]:
        return None, f"who is connected to {some_of(unknown)} can only be seen there: give --peers"
    return True, "nobody but brokers is connected to the old ones"


def _stopped(old: Sequence[Server]) -> tuple[bool, str]:
    running = [one.address for one in old if not one.error]
    return not running, f"running: {some_of(running)}" if running else "no old one answers"
