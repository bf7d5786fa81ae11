"""One of several workers that share a topic's queues: python worker.py orders 0 2 [host:port;host:port].

The arguments are the topic, the number of this worker (from 0), and how many there are. SIGTERM or Ctrl-C ends it.
"""

import asyncio
import signal
import sys

from mqregistry.client import RouteClient


async def main(topic: str, number: int, workers: int, name_servers: str | None) -> None:
    look, stopping = asyncio.Event(), asyncio.Event()

    def stop() -> None:
        stopping.set()
        look.set()

    loop = asyncio.get_running_loop()
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signal_number, stop)

    async with RouteClient(name_servers) as client:  # None: NAMESRV_ADDR
        queues = await client.subscribe_info(topic)
        client.on_route_change(lambda change: look.set())
        while not stopping.is_set():
            mine = queues[number::workers]
            print(
                "reads", ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in mine) or "nothing", flush=True
            )
            # Your code reads these queues here, at client.find_broker_addr_in_subscribe(queue.broker_name).
            await look.wait()
            look.clear()
            queues = await client.subscribe_info(topic)
    print("stopped")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] if len(sys.argv) > 4 else None))
