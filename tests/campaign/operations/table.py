"""The table of operations, and what each claims and disturbs.

An operation gets its own random numbers, so that it does the same when the schedule around it is made shorter. What it
needs is claimed; if another operation has it, nothing happens.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from ..processes import Daemon, FrontEnd

if TYPE_CHECKING:
    from ..world import World


Operation = Callable[["World", Random], Awaitable[None]]
OPERATIONS: dict[str, tuple[float, Operation]] = {}
"""Name -> weight, function."""


def operation(weight: float) -> Callable[[Operation], Operation]:
    def add(function: Operation) -> Operation:
        OPERATIONS[function.__name__] = (weight, function)
        return function

    return add


class Busy(Exception):
    """Another operation has what this one needs: it does not happen."""


@contextlib.contextmanager
def claimed(world: World, *things: str) -> Iterator[None]:
    if world.busy & set(things):
        raise Busy
    world.busy |= set(things)
    try:
        yield
    finally:
        world.busy -= set(things)


@contextlib.contextmanager
def disturbed(world: World, *places: str) -> Iterator[None]:
    """These places are disturbed for the length of a block."""
    for place in places:
        world.timeline.begin(place)
    try:
        yield
    finally:
        for place in places:
            world.timeline.end(place)


def places_of(*daemons: Daemon) -> list[str]:
    """These processes are cut off as a whole."""
    places = []
    for daemon in daemons:
        places += [daemon.name, f"gap{daemon.index}"] if isinstance(daemon, FrontEnd) else ["sweep"]
    return places


def everything_of(world: World) -> list[str]:
    return ["redis", *(daemon.name for daemon in world.daemons), *(f"link {daemon.name}" for daemon in world.daemons)]
