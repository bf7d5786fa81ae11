"""For applications and brokers: speaking to name servers, ours or any other.

What stands in ``__all__`` is the public interface; each name is imported when it is first used, so that a program
which only asks for routes does not load what registers brokers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from registry.client.address_server import AddressServer
    from registry.client.addresses import Address, Addresses
    from registry.client.connection import Connection
    from registry.client.name_servers import NameServers
    from registry.client.queue_selection import QueueSelector
    from registry.client.reconnecting import ReconnectingConnection
    from registry.client.registrar import BrokerRegistrar
    from registry.client.registrar_config import BrokerConfig
    from registry.client.registrar_sync import BrokerRegistrarSync
    from registry.client.registrar_topics import TopicTable
    from registry.client.route_client import RouteChange, RouteClient
    from registry.client.route_client_sync import RouteClientSync
    from registry.client.route_info import MessageQueue, PublishInfo
    from registry.client.route_tables import FoundBroker
    from registry.client.sync import SyncFace

_MODULES: Final = {
    "Address": "addresses",
    "AddressServer": "address_server",
    "Addresses": "addresses",
    "BrokerConfig": "registrar_config",
    "BrokerRegistrar": "registrar",
    "BrokerRegistrarSync": "registrar_sync",
    "Connection": "connection",
    "FoundBroker": "route_tables",
    "MessageQueue": "route_info",
    "NameServers": "name_servers",
    "PublishInfo": "route_info",
    "QueueSelector": "queue_selection",
    "ReconnectingConnection": "reconnecting",
    "RouteChange": "route_client",
    "RouteClient": "route_client",
    "RouteClientSync": "route_client_sync",
    "SyncFace": "sync",
    "TopicTable": "registrar_topics",
}

__all__ = [
    "Address", "AddressServer", "Addresses", "BrokerConfig", "BrokerRegistrar", "BrokerRegistrarSync", "Connection",
    "FoundBroker", "MessageQueue", "NameServers", "PublishInfo", "QueueSelector", "ReconnectingConnection",
    "RouteChange", "RouteClient", "RouteClientSync", "SyncFace", "TopicTable",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
