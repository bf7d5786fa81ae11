"""Registers a broker: python broker.py [host:port;host:port], or name servers in NAMESRV_ADDR."""

import asyncio
import sys

from mqregistry.client import BrokerConfig, BrokerRegistrar, TopicConfig, TopicTable


async def main(name_servers: str | None) -> None:
    topics = TopicTable([TopicConfig("orders", 8, 8, perm=6), TopicConfig("bills", 4, 4, perm=6)])
    config = BrokerConfig(broker_name="broker-a", broker_addr="10.0.0.1:10911")
    async with BrokerRegistrar(config, topics, name_servers) as registrar:  # None: NAMESRV_ADDR
        for result in registrar.results.values():
            print(f"{result.server}: {result.status} {result.error}")

        # This makes a new DataVersion, which is registered in the background at every name server.
        topics.put_topic("refunds", read_queue_nums=2, write_queue_nums=2)

        # Register now, and wait for the answers.
        for result in (await registrar.register_now()).values():
            print(f"{result.server}: {result.status} {result.error}, {result.data_version}")

        # A broker stays in this block as long as it runs. The end of the block unregisters it.


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
