"""A fake name server that answers as a Java NameServer with given tables does, as far as ``compare`` asks."""

from __future__ import annotations

from mqregistry.model import BrokerRow, QueueData
from mqregistry.protocol.bodies.route import encode_cluster_info, encode_route
from mqregistry.protocol.bodies.tables import encode_kv_table, encode_topic_list
from mqregistry.protocol.command import Command
from mqregistry.tables.pick_up_route import pick_up_route
from mqregistry.tables.tables import Tables


def tables_of(topics=("orders",), names=("broker-a",), cluster="c1"):
    """These topics at each of these brokerNames, which have a master each."""
    tables = Tables()
    for number, name in enumerate(names, 1):
        tables.brokers[name] = BrokerRow(cluster, {0: f"10.0.0.{number}:10911"})
        tables.clusters.setdefault(cluster, set()).add(name)
        for topic in topics:
            tables.set_queue_data(topic, name, QueueData(8, 8, 6))
    return tables


def answer_as_java(server, tables, *, version=479, config=b"orderMessageEnable=false\n"):
    """Have a FakeNameServer answer from these tables; changing them changes its answers."""

    async def answer(request):
        ext = request.ext_fields or {}
        if request.code == 105:
            route = pick_up_route(tables, ext["topic"])
            body = None if route is None else encode_route(route, quoted_keys=True)
            return Command(code=17, version=version) if body is None else Command(code=0, body=body, version=version)
        if request.code == 219:
            table = tables.kv.get(ext["namespace"])
            body = None if table is None else encode_kv_table(table)
            return Command(code=22, version=version) if body is None else Command(code=0, body=body, version=version)
        bodies = {
            106: lambda: encode_cluster_info(tables.brokers, tables.clusters),
            206: lambda: encode_topic_list(tables.topics), 319: lambda: config,
        }  # fmt: skip
        if request.code in bodies:
            return Command(code=0, body=bodies[request.code](), version=version)
        if version < 413:
            return None  # 4.x does not answer what it does not know
        return Command(code=3, remark=f" request type {request.code} not supported", version=version)

    server.answer = answer
    return tables
