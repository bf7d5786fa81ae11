"""Finds and follows routes, and registers brokers, at name servers (ours or Java's), for programs in Python.

``__all__`` is the public interface. Each name is imported when it is first used, so that a program which only asks
for routes does not load the modules that register brokers.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ..errors import (
        ClientClosed,
        ConfigError,
        NoRoute,
        PeerGoesAway,
        PeerUnavailable,
        RegistryError,
        RemoteProtocolError,
        StoreError,
        StoreUnavailable,
    )
    from ..model import BrokerRow, DataVersion, QueueData, TopicConfig, TopicQueueMapping, TopicRoute
    from ..protocol.codes import Encoding
    from .address_server import AddressServer
    from .addresses import NameServerAddress, NameServerAddresses
    from .broker.config import BrokerConfig
    from .broker.pace import Pace
    from .broker.redis_writer import RedisWriter
    from .broker.registrar import BrokerRegistrar
    from .broker.registrar_sync import BrokerRegistrarSync
    from .broker.target import RegistrationAnswer, RegistrationResult
    from .broker.topic_table import TopicTable
    from .connection import PeerConnection
    from .name_servers import NameServers
    from .routes.client import RouteClient
    from .routes.client_sync import RouteClientSync
    from .routes.queues import MessageQueue, PublishInfo
    from .routes.selection import QueueSelector
    from .routes.tables import FoundBroker
    from .routes.updates import RouteChange
    from .sync_client import SyncClient

# name -> its module in the package mqregistry
_MODULES: Final = {
    "AddressServer": "client.address_server",
    "BrokerConfig": "client.broker.config",
    "BrokerRegistrar": "client.broker.registrar",
    "BrokerRegistrarSync": "client.broker.registrar_sync",
    "BrokerRow": "model",
    "ClientClosed": "errors",
    "ConfigError": "errors",
    "DataVersion": "model",
    "Encoding": "protocol.codes",
    "FoundBroker": "client.routes.tables",
    "MessageQueue": "client.routes.queues",
    "NameServerAddress": "client.addresses",
    "NameServerAddresses": "client.addresses",
    "NameServers": "client.name_servers",
    "NoRoute": "errors",
    "Pace": "client.broker.pace",
    "PeerConnection": "client.connection",
    "PeerGoesAway": "errors",
    "PeerUnavailable": "errors",
    "PublishInfo": "client.routes.queues",
    "QueueData": "model",
    "QueueSelector": "client.routes.selection",
    "RedisWriter": "client.broker.redis_writer",
    "RegistrationAnswer": "client.broker.target",
    "RegistrationResult": "client.broker.target",
    "RegistryError": "errors",
    "RemoteProtocolError": "errors",
    "RouteChange": "client.routes.updates",
    "RouteClient": "client.routes.client",
    "RouteClientSync": "client.routes.client_sync",
    "StoreError": "errors",
    "StoreUnavailable": "errors",
    "SyncClient": "client.sync_client",
    "TopicConfig": "model",
    "TopicQueueMapping": "model",
    "TopicRoute": "model",
    "TopicTable": "client.broker.topic_table",
}

__all__ = [
    "AddressServer", "BrokerConfig", "BrokerRegistrar", "BrokerRegistrarSync", "BrokerRow", "ClientClosed",
    "ConfigError", "DataVersion", "Encoding", "FoundBroker", "MessageQueue", "NameServerAddress",
    "NameServerAddresses", "NameServers", "NoRoute", "Pace", "PeerConnection", "PeerGoesAway", "PeerUnavailable",
    "PublishInfo", "QueueData", "QueueSelector", "RedisWriter", "RegistrationAnswer",
    "RegistrationResult", "RegistryError", "RemoteProtocolError", "RouteChange", "RouteClient", "RouteClientSync",
    "StoreError", "StoreUnavailable", "SyncClient", "TopicConfig", "TopicQueueMapping", "TopicRoute", "TopicTable",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__.removesuffix('.client')}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
