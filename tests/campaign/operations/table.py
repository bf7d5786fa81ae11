"""The table of operations, and what each claims and disturbs.

An operation gets its own random numbers, so that it does the same when the schedule around it is made shorter. What it
needs is claimed; if another operation has it, nothing happens. One that needs the one server, its files or the links
before it is for that variant only.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from ..processes import Daemon, FrontEnd
from ..variants import VARIANTS

if TYPE_CHECKING:
    from ..world import World


Play = Callable[["World", Random], Awaitable[None]]


@dataclasses.dataclass(frozen=True)
class Operation:
    """weight: how often it happens, compared with others. variants: on which sorts of servers it can be played."""

    weight: float
    play: Play
    variants: tuple[str, ...]

    @property
    def what(self) -> str:
        return (self.play.__doc__ or "").strip().partition("\n")[0]


OPERATIONS: dict[str, Operation] = {}


def operation(weight: float, *, only: str = "") -> Callable[[Play], Play]:
    """Put a function into the table. only: the one variant that it is for; "": for all."""

    def add(function: Play) -> Play:
        OPERATIONS[function.__name__] = Operation(weight, function, (only,) if only else VARIANTS)
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
