"""Follows routes: python routes.py [host:port;host:port], or name servers in NAMESRV_ADDR."""

import asyncio
import sys

from mqregistry.client import NoRoute, RouteChange, RouteClient


def show_change(change: RouteChange) -> None:
    print(f"{change.topic} is at {', '.join(sorted(change.route.broker_rows))}")


async def main(name_servers: str | None) -> None:
    async with RouteClient(name_servers) as client:  # None: NAMESRV_ADDR
        client.on_route_change(show_change)

        queue = await client.select_queue("orders")  # queues take turns
        print("send to", queue, "at", client.find_broker_addr_in_publish(queue.broker_name))
        # If sending failed, choose a queue of a different broker, if there is one.
        print("or send to", await client.select_queue("orders", last_broker_name=queue.broker_name))

        for queue in await client.subscribe_info("bills"):
            print("read from", queue)

        try:
            await client.select_queue("no-such-topic")
        except NoRoute as error:
            print("error:", error)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else None))
