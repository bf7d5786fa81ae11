"""Registers a broker in the registry's Redis, without a name server: python broker_redis.py redis://host:6379."""

import asyncio
import sys

from mqregistry.client import BrokerConfig, BrokerRegistrar, TopicConfig


async def main(redis: str, namespace: str) -> None:
    config = BrokerConfig(broker_name="broker-a", broker_addr="10.0.0.1:10911")
    topics = [TopicConfig("orders", 8, 8, perm=6), TopicConfig("bills", 4, 4, perm=6)]
    async with BrokerRegistrar(config, topics, transport="redis", redis=redis, namespace=namespace) as registrar:
        for result in registrar.results.values():
            print(f"{result.server}: {result.status} {result.error}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "default"))
