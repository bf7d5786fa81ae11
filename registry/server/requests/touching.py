"""Refreshes a broker that gives a sign of life, if its sender may speak for it: otherwise nothing is touched."""

from __future__ import annotations

from ...model import DataVersion
from ...protocol.command import Command
from ...store.route_writes import Touched
from ..auth.peer import Peer
from .context import RequestContext


async def touch(
    context: RequestContext, command: Command, peer: Peer, cluster: str, broker_addr: str,
    only_version: DataVersion | None = None,
) -> Touched:  # fmt: skip
    """Refresh it, and keep the connection as its channel.

    Args:
        only_version: refresh only if this is the broker's data version; None: always.

    Raises:
        NotAllowed: it belongs to another user, or is in another cluster; nothing was refreshed.
        StoreUnavailable: Redis is away.
    """
    context.begin_write()
    size = len(command.body)
    touched = await context.decided(
        command, peer,
        lambda owner: context.routes.touch_broker(
            cluster, broker_addr, peer.channel, size, only_version=only_version, owner=owner
        ),
    )  # fmt: skip
    context.check_owner(command, peer, touched.owner)
    if touched.refreshed:
        context.channels.touched(context.behaviour.who(cluster, broker_addr), peer)
    return touched
