"""``broker forget``: removes a broker name with all it has, by the script of 104."""

from __future__ import annotations

import click

from ...operators.words import counted, some
from ...store.operator_reads import nowhere_else, read_brokers
from ...store.route_writes import RouteStore
from ...store.store import Store
from .. import output
from ..target import target_command
from .broker_name import done, head, name_argument, read
from .confirm import confirm, yes_option


@click.command()
@name_argument
@yes_option
@target_command
async def forget(store: Store, name: str, yes: bool, as_json: bool) -> None:
    """Remove broker NAME with all its addresses and topics, as if each had said goodbye (104).

    For brokers that are gone for good. One that lives comes back with its next registration.
    """
    row, queue_datas = await read(store, name)
    live = {info.broker_addr: info for info in await read_brokers(store) if info.broker_name == name}
    alone = await nowhere_else(store, queue_datas)
    lines = [head(name, row)]
    for broker_id, addr in sorted(row.broker_addrs.items()):
        info = live.get(addr)
        heard = f"last heard {output.duration(info.heard_ms_ago)} ago" if info else "does not count as alive"
        back = "; it registers again as long as it lives" if info and info.expires_in_ms > 0 else ""
        lines.append(f"goes: {addr} id {broker_id}, {heard}{back}")
    lines.append(f"{counted(len(queue_datas), 'topic')} lose{'s' * (len(queue_datas) == 1)} the route to it")
    if alone:
        lines.append(f"{counted(len(alone), 'topic')} of these will have no route at all: {some(alone)}")
    confirm(*lines, yes=yes, as_json=as_json)
    routes = RouteStore(store)
    for broker_id, addr in row.broker_addrs.items():
        await routes.unregister_broker(row.cluster, addr, name, broker_id)
    done(
        f"{name}: {counted(len(row.broker_addrs), 'address', 'addresses')} and "
        f"{counted(len(queue_datas), 'topic')} forgotten",
        {"broker_name": name, "addrs": sorted(row.broker_addrs.values()), "topics": sorted(queue_datas),
         "topics_without_route": sorted(alone)},
        as_json=as_json,
    )  # fmt: skip
