"""Registers a broker without an event loop: python broker_sync.py [host:port;host:port], or NAMESRV_ADDR."""

import sys

from mqregistry.client import BrokerConfig, BrokerRegistrarSync, TopicConfig, TopicTable


def main(name_servers: str | None) -> None:
    topics = TopicTable([TopicConfig("orders", 8, 8, perm=6), TopicConfig("bills", 4, 4, perm=6)])
    config = BrokerConfig(broker_name="broker-a", broker_addr="10.0.0.1:10911")
    with BrokerRegistrarSync(config, topics, name_servers) as registrar:  # None: NAMESRV_ADDR
        topics.put_topic("refunds", read_queue_nums=2, write_queue_nums=2)  # any thread may change the table
        for result in registrar.register_now().values():
            print(f"{result.server}: {result.status} {result.error}, {result.data_version}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
