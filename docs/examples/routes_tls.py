"""Looks up a topic over TLS: python routes_tls.py ca.pem [host:port;host:port], or name servers in NAMESRV_ADDR."""

import asyncio
import ssl
import sys

from mqregistry.client import RouteClient


async def main(ca_file: str, name_servers: str | None) -> None:
    tls = ssl.create_default_context(cafile=ca_file)
    # Java clients check no host names. If NAMESRV_ADDR and the certificates have host names, leave this line out.
    tls.check_hostname = False
    async with RouteClient(name_servers, tls=tls) as client:
        route = await client.lookup("orders")
        print("no such topic" if route is None else sorted(route.broker_rows))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None))
