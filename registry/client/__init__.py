"""Finds and follows routes, and registers brokers, at name servers (ours or Java's), for programs in Python.

``__all__`` is the public interface. Each name is imported at its first use: a program that only asks for routes does
not load the modules that register brokers.
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

# module in the package mqregistry -> its public names
_PUBLIC: Final = {
    "client.address_server": "AddressServer",
    "client.addresses": "NameServerAddress NameServerAddresses",
    "client.broker.config": "BrokerConfig",
    "client.broker.pace": "Pace",
    "client.broker.redis_writer": "RedisWriter",
    "client.broker.registrar": "BrokerRegistrar",
    "client.broker.registrar_sync": "BrokerRegistrarSync",
    "client.broker.target": "RegistrationAnswer RegistrationResult",
    "client.broker.topic_table": "TopicTable",
    "client.connection": "PeerConnection",
    "client.name_servers": "NameServers",
    "client.routes.client": "RouteClient",
    "client.routes.client_sync": "RouteClientSync",
    "client.routes.queues": "MessageQueue PublishInfo",
    "client.routes.selection": "QueueSelector",
    "client.routes.tables": "FoundBroker",
    "client.routes.updates": "RouteChange",
    "client.sync_client": "SyncClient",
    "errors": "ClientClosed ConfigError NoRoute PeerGoesAway PeerUnavailable "
    "RegistryError RemoteProtocolError StoreError StoreUnavailable",
    "model": "BrokerRow DataVersion QueueData TopicConfig TopicQueueMapping TopicRoute",
    "protocol.codes": "Encoding",
}
_MODULES: Final = {name: module for module, names in _PUBLIC.items() for name in names.split()}

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
