"""The settings that limit connections and requests, per address and for all clients of a front end together."""

# No "from __future__ import annotations": to evaluate a hundred texts takes some milliseconds of every start.

from typing import Annotated, Final

import msgspec

from .option import About, RunTime

NETWORKS: Final = "addresses and networks, separated by ; (127.0.0.0/8;::1;10.1.2.3)"

_GUARDS: Final = RunTime(False, "a limited client could lift the limit")


def _mode(key: str, what: str) -> About:
    help = f"{what} over a limit: off = let through, observe = counted and reported, enforce = refused, too."
    return About(key, help, run_time=_GUARDS, choices=("off", "observe", "enforce"))


def _limit(key: str, help: str) -> About:
    return About(key, help, run_time=_GUARDS, most=1_000_000)


def _check_networks(text: str) -> None:
    from ..networks import Networks  # not at the top: it imports ipaddress, which takes 3 ms, and defaults need none

    Networks.of_setting(text)


def _networks(key: str, help: str, run_time: RunTime | None = None) -> About:
    return About(key, help, run_time=run_time, form=("", NETWORKS), check=_check_networks)


class LimitSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The limits (0 = no limit), and a mode for each kind of limit. Each worker process counts by itself.

    The defaults let 4,000 brokers and 10,000 clients behind one address connect and register at once, even several
    times a minute.
    """

    limit_connections: Annotated[str, _mode("limitConnections", "Open connections")] = "observe"
    limit_new_connections: Annotated[str, _mode("limitNewConnections", "New connections")] = "observe"
    limit_writes: Annotated[
        str, _mode("limitWrites", "Writes of brokers (104, and 103 unless it repeats the last one)")
    ] = "observe"
    limit_admin_writes: Annotated[
        str, _mode("limitAdminWrites", "Writes of tools (100, 102, 205, 216, 217, 318, 327)")
    ] = "observe"
    limit_new_brokers: Annotated[
        str, _mode("limitNewBrokers", "Registrations of brokers that are not in the tables")
    ] = "observe"

    address_connections: Annotated[
        int, _limit("addressConnections", "Open connections of one address; of all: maxConnections.")
    ] = 16_000
    address_new_connections_per_second: Annotated[
        int, _limit("addressNewConnectionsPerSecond", "New connections of one address a second.")
    ] = 1000
    address_writes_per_second: Annotated[
        int, _limit("addressWritesPerSecond", "Writes of brokers of one address a second.")
    ] = 1000
    address_admin_writes_per_second: Annotated[
        int, _limit("addressAdminWritesPerSecond", "Writes of tools of one address a second.")
    ] = 200
    address_new_brokers_per_second: Annotated[
        int, _limit("addressNewBrokersPerSecond", "New brokers of one address a second.")
    ] = 200
    namespace_new_connections_per_second: Annotated[
        int, _limit("namespaceNewConnectionsPerSecond", "New connections of all addresses a second.")
    ] = 5000
    namespace_writes_per_second: Annotated[
        int, _limit("namespaceWritesPerSecond", "Writes of brokers of all addresses a second.")
    ] = 5000
    namespace_admin_writes_per_second: Annotated[
        int, _limit("namespaceAdminWritesPerSecond", "Writes of tools of all addresses a second.")
    ] = 500
    namespace_new_brokers_per_second: Annotated[
        int, _limit("namespaceNewBrokersPerSecond", "New brokers of all addresses a second.")
    ] = 500
    rate_burst_seconds: Annotated[
        int,
        About(
            "rateBurstSeconds", "A client may use at once what a limit allows in this time.",
            run_time=_GUARDS, least=1, most=3600,
        ),
    ] = 60  # fmt: skip
    unlimited_addresses: Annotated[
        str,
        _networks(
            "unlimitedAddresses",
            "Networks whose addresses have no limits of their own (a gateway, a balancer without PROXY protocol).",
            _GUARDS,
        ),
    ] = "127.0.0.0/8;::1"
    proxy_protocol_from: Annotated[
        str,
        _networks(
            "proxyProtocolFrom",
            "Networks that may send PROXY protocol headers: the address in the header then counts as the client's.",
        ),
    ] = ""
