"""Follows routes without an event loop: python routes_sync.py [host:port;host:port], or NAMESRV_ADDR."""

import sys
from concurrent.futures import ThreadPoolExecutor

from mqregistry.client import RouteClientSync


def main(name_servers: str | None) -> None:
    with RouteClientSync(name_servers) as client:  # None: NAMESRV_ADDR
        queue = client.select_queue("orders")
        print("send to", queue, "at", client.find_broker_addr_in_publish(queue.broker_name))

        # Any number of threads share one client; a forked process opens its own.
        with ThreadPoolExecutor() as threads:
            for queue in threads.map(client.select_queue, ["orders"] * 4):
                print("a thread sends to", queue)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
