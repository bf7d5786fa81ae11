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
    from registry.client.broker.config import BrokerConfig
    from registry.client.broker.registrar import BrokerRegistrar
    from registry.client.broker.sync import BrokerRegistrarSync
    from registry.client.broker.topics import TopicTable
    from registry.client.connection import Connection
    from registry.client.name_servers import NameServers
    from registry.client.reconnecting import ReconnectingConnection
    from registry.client.routes.client import RouteChange, RouteClient
    from registry.client.routes.info import MessageQueue, PublishInfo
    from registry.client.routes.selection import QueueSelector
    from registry.client.routes.sync import RouteClientSync
    from registry.client.routes.tables import FoundBroker
    from registry.client.sync import SyncFace

_MODULES: Final = {
    "Address": "addresses",
    "AddressServer": "address_server",
    "Addresses": "addresses",
    "BrokerConfig": "broker.config",
    "BrokerRegistrar": "broker.registrar",
    "BrokerRegistrarSync": "broker.sync",
    "Connection": "connection",
    "FoundBroker": "routes.tables",
    "MessageQueue": "routes.info",
    "NameServers": "name_servers",
    "PublishInfo": "routes.info",
    "QueueSelector": "routes.selection",
    "ReconnectingConnection": "reconnecting",
    "RouteChange": "routes.client",
    "RouteClient": "routes.client",
    "RouteClientSync": "routes.sync",
    "SyncFace": "sync",
    "TopicTable": "broker.topics",
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
